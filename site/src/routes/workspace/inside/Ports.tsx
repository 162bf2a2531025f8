import { Copied } from "../../../components/Copied";
import { Section } from "../../../components/Page";
import { ErrorState, Loading } from "../../../components/Status";
import { useQuery } from "@tanstack/react-query";
import { read } from "../../../services/query";

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
          <Copied
            key={p.port}
            label={p.process ? `Port ${p.port} (${p.process})` : `Port ${p.port}`}
            text={`prewarm port-forward ${workspace} ${p.port}`}
          />
        ))}
      </div>
    </Section>
  );
}
