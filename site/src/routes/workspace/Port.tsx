import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { Button } from "../../components/Button";
import { Page } from "../../components/Page";
import { ErrorState } from "../../components/Status";
import { call } from "../../services/api";
import { wasClicked } from "./inside/opening";

/**
 * PortPage leads to a port of a workspace, on its own origin. It goes there by itself only after a click on a page of ours: who
 * comes from elsewhere is asked. So no other page opens a port, and a browser without cookies does not go round.
 */
export function PortPage() {
  const { workspace, port } = useParams({ from: "/inside/workspaces/$workspace/ports/$port" });
  const { path } = useSearch({ from: "/inside/workspaces/$workspace/ports/$port" });
  const open = useMutation({
    mutationFn: () => call("create-port-link", { params: { workspace, port: Number(port) }, body: path === undefined ? {} : { path } }),
    onSuccess: ({ url }) => location.replace(url),
  });
  const began = useRef(false);
  useEffect(() => {
    if (began.current) return;
    began.current = true;
    if (wasClicked(workspace, port)) open.mutate();
  }, [workspace, port, open]);
  return (
    <Page
      title={`Port ${port}`}
      above={
        <Link to="/workspaces/$workspace" params={{ workspace }} className="link">
          {workspace}
        </Link>
      }
      lead="A program in this workspace answers there, on an address of its own."
    >
      {open.error && <ErrorState error={open.error} />}
      <div>
        <Button look="primary" busy={open.isPending || open.isSuccess} onClick={() => open.mutate()}>
          Open port {port}
        </Button>
      </div>
    </Page>
  );
}
