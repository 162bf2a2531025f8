import { Link } from "@tanstack/react-router";
import { Copied } from "../../../components/Copied";
import { Section } from "../../../components/Page";
import { ErrorState, Loading } from "../../../components/Status";
import { useQuery } from "@tanstack/react-query";
import { read } from "../../../services/query";
import type { Port } from "../../../generated/api";
import { clicked } from "./opening";

/** How often ports are read: nothing hints at them. In milliseconds. */
const every = 5_000;

/** Ports lists what listens in a workspace, and how to reach it. */
export function Ports({ workspace }: { workspace: string }) {
  const ports = useQuery({ ...read("list-ports", { params: { workspace } }), refetchInterval: every });
  return (
    <Section title="Ports">
      {ports.error && <ErrorState error={ports.error} retry={() => void ports.refetch()} />}
      {ports.isPending && <Loading lines={1} />}
      {ports.data?.length === 0 && <p className="text-sm text-ink-2">Nothing listens in it.</p>}
      <div className="flex flex-col gap-3">
        {ports.data?.map((p) => (
          <Reached key={p.port} workspace={workspace} port={p} />
        ))}
      </div>
    </Section>
  );
}

/** Reached is how one gets to a port: by a link where the server has a domain for that, else by a command. */
function Reached({ workspace, port: p }: { workspace: string; port: Port }) {
  const label = p.process ? `Port ${p.port} (${p.process})` : `Port ${p.port}`;
  if (!p.url) return <Copied label={label} text={`prewarm port-forward ${workspace} ${p.port}`} />;
  return (
    <p className="text-sm">
      <Link
        to="/workspaces/$workspace/ports/$port"
        params={{ workspace, port: String(p.port) }}
        target="_blank"
        rel="noopener"
        className="link"
        onClick={() => clicked(workspace, p.port)}
      >
        {label}
        <span className="sr-only"> opens in a new tab</span>
      </Link>
    </p>
  );
}
