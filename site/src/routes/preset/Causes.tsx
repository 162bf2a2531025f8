import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { Section } from "../../components/Page";
import { RelativeTime } from "../../components/Time";
import type { Cause, Failures } from "../../generated/api";
import { useRead } from "../../services/query";

/** Causes is why creates failed, one entry for each cause, with the end of what the last one wrote. */
export function Causes({ failures, action }: { failures: Failures; action?: ReactNode }) {
  return (
    <Section
      title="Failures by cause"
      beside={
        <span className="flex flex-wrap items-center gap-3">
          {failures.streak > 0 ? `${failures.streak} in a row now` : "none since the last success"}
          {action}
        </span>
      }
    >
      <ul className="flex flex-col gap-5">
        {failures.causes.map((c, i) => (
          <Entry key={c.cause} cause={c} open={i === 0} />
        ))}
      </ul>
    </Section>
  );
}

function Entry({ cause: c, open: first }: { cause: Cause; open: boolean }) {
  const [open, setOpen] = useState(first);
  return (
    <li className="flex min-w-0 gap-3">
      <span className="mt-0.5 h-fit min-w-11 rounded-md bg-sunken px-2 py-0.5 text-center text-sm font-semibold tabular-nums">
        {c.count}×
      </span>
      <div className="min-w-0 grow">
        <p className="font-mono text-sm break-words">{c.message || c.cause}</p>
        <p className="mt-1 text-sm text-ink-2">
          last <RelativeTime at={c.last_at} />, version {c.version},{" "}
          <Link to="/workspaces/$workspace" params={{ workspace: c.workspace }} className="link break-all">
            {c.workspace}
          </Link>
          {c.permanent && "; will not succeed on retry"}
        </p>
        <details className="mt-1.5 text-sm" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
          <summary className="w-fit text-ink-2">What the last one wrote</summary>
          {open && <Last cause={c} />}
        </details>
      </div>
    </li>
  );
}

/** lastLines are the end of a log, without what is empty at its end. */
export function lastLines(log: string, most: number): string {
  return log.trimEnd().split("\n").slice(-most).join("\n");
}

function Last({ cause }: { cause: Cause }) {
  const workspace = useRead("get-workspace", { params: { workspace: cause.workspace } });
  const log = workspace.data?.evidence;
  return (
    <>
      {cause.fault !== cause.cause && <Lines label="Fault in full" text={cause.fault} />}
      {log ? (
        <Lines label={`The last lines of ${cause.workspace}`} text={lastLines(log, 20)} />
      ) : (
        !workspace.isPending &&
        cause.fault === cause.cause && (
          <p className="mt-2 text-ink-2">
            {workspace.error ? "It is gone, and its output with it." : "No output was kept: it wrote none, or its template keeps no failures."}
          </p>
        )
      )}
    </>
  );
}

function Lines({ label, text }: { label: string; text: string }) {
  return (
    <pre
      tabIndex={0}
      role="region"
      aria-label={label}
      className="mt-2 max-h-64 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs whitespace-pre-wrap"
    >
      {text}
    </pre>
  );
}
