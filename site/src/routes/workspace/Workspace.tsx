import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Page } from "../../components/Page";
import { StateBadge } from "../../components/StateBadge";
import { ErrorState, Loading } from "../../components/Status";
import { Since } from "../../components/Time";
import { read, useRead } from "../../services/query";
import { forgeOf, useForges } from "../../services/forges";
import { useMay } from "../../services/session";
import { Actions, Renew } from "./Actions";
import { Files } from "./inside/Files";
import { Ports } from "./inside/Ports";
import { TerminalSection } from "./inside/TerminalSection";
import { useInside } from "./inside/useInside";
import { Logs } from "./Logs";
import { Runner } from "./Runner";
import { WorkspaceView } from "./WorkspaceView";

/** WorkspacePage is the life of one workspace. */
export function WorkspacePage() {
  const { workspace } = useParams({ from: "/inside/workspaces/$workspace" });
  const may = useMay();
  const shown = useRead("get-workspace", { params: { workspace } });
  const w = shown.data;
  const forge = forgeOf(useForges(), w?.template ?? "", w?.preset ?? "");
  const durations = useQuery({
    ...read("get-preset-durations", { params: { template: w?.template ?? "", preset: w?.preset ?? "" } }),
    enabled: w !== undefined,
    staleTime: 300_000,
  });
  // Where that may be asked: whether its provider keeps output at all.
  const providers = useQuery({ ...read("list-providers"), enabled: may("list-providers") });
  const can = providers.data?.find((p) => p.name === w?.provider)?.can;
  // Output there is of what exists; of what is made by runs there is also theirs, from the first one on.
  const spoken = can?.includes("logs-making") || (w?.provider_id && can?.includes("logs") !== false);
  const processes = useInside(w);
  const known = providers.data !== undefined || !may("list-providers") || providers.isError;
  return (
    <Page
      title={w?.name ?? workspace}
      above={
        w && (
          <Link to="/presets/$template/$preset" params={{ template: w.template, preset: w.preset }} className="link">
            {w.template}/{w.preset}
          </Link>
        )
      }
      lead={
        w && (
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <StateBadge state={w.state} />
            <span>
              for <Since at={w.state_at} />
              {w.state === "claimed" && <>, by {w.owner}</>}
            </span>
          </span>
        )
      }
      actions={w && w.state !== "deleted" && <Actions workspace={w} />}
    >
      {shown.error && <ErrorState error={shown.error} retry={() => void shown.refetch()} />}
      {shown.isPending && <Loading lines={6} />}
      {w && (
        <WorkspaceView
          workspace={w}
          usual={durations.data?.states}
          renew={w.state === "claimed" && may("renew-workspace") && <Renew workspace={w} />}
          inside={
            processes && (
              <>
                <TerminalSection workspace={w.name} processes={processes} />
                <Files workspace={w.name} />
              </>
            )
          }
          ports={processes && <Ports workspace={w.name} />}
          runner={forge && <Runner name={w.name} />}
          logs={may("get-workspace-logs") && known && spoken && w.state !== "deleted" && <Logs name={w.name} />}
        />
      )}
    </Page>
  );
}
