import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import source from "../../../../examples/quickstart.yaml?raw";
import { Button } from "../../components/Button";
import { Icon } from "../../components/Icon";
import { Page } from "../../components/Page";
import { ErrorState, Loading, Notice } from "../../components/Status";
import { Strip } from "../../components/Strip";
import { toast } from "../../components/Toasts";
import type { Claim, Pool } from "../../generated/api";
import { slotsOf, usePools, warm } from "../../services/pools";
import { useAct } from "../../services/query";
import { useMay } from "../../services/session";
import { counted, verb } from "../../services/words";

/** Welcome goes from nothing to a warm pool and a first claim. */
export function Welcome() {
  const pools = usePools();
  const pool = pools.data?.find((p) => p.template === "quickstart") ?? pools.data?.find((p) => p.pool);
  const [claimed, setClaimed] = useState<{ claim: Claim; ms: number }>();
  if (!pools.data) {
    return (
      <Page title="Welcome">
        {pools.error ? <ErrorState error={pools.error} retry={() => void pools.refetch()} /> : <Loading />}
      </Page>
    );
  }
  return (
    <Page
      title="Welcome to Prewarm"
      lead="Three steps to a workspace that was ready before you asked for it. They take less than a minute."
    >
      <ol className="flex max-w-3xl flex-col gap-4">
        <Step n={1} title="Make a pool" done={pool !== undefined}>
          <MakePool pool={pool} />
        </Step>
        <Step n={2} title="Let it fill" done={pool !== undefined && warm(pool)} ahead={pool === undefined}>
          {pool && <Fill pool={pool} />}
        </Step>
        <Step n={3} title="Claim a workspace" done={claimed !== undefined} ahead={pool === undefined || (!warm(pool) && !claimed)}>
          {pool && (warm(pool) || claimed) && <Take pool={pool} claimed={claimed} onClaim={setClaimed} />}
        </Step>
      </ol>
    </Page>
  );
}

function Step({ n, title, done, ahead = false, children }: {
  n: number;
  title: string;
  done: boolean;
  ahead?: boolean;
  children: ReactNode;
}) {
  return (
    <li className="card flex gap-4 p-5">
      <span
        aria-hidden="true"
        className={`grid size-8 shrink-0 place-items-center rounded-full border-2 text-sm font-semibold ${done ? "border-ready text-ready" : "border-line-strong text-ink-2"}`}
      >
        {done ? <Icon name="check" /> : n}
      </span>
      <div className="min-w-0 grow">
        <h2 className={`pt-1 font-semibold ${ahead ? "text-ink-2" : ""}`}>
          {title}
          {done && <span className="sr-only"> (done)</span>}
        </h2>
        {!ahead && <div className="mt-2 flex flex-col gap-3">{children}</div>}
      </div>
    </li>
  );
}

function MakePool({ pool }: { pool: Pool | undefined }) {
  const may = useMay();
  const apply = useAct("apply");
  if (pool) {
    return (
      <p className="text-ink-2">
        There is{" "}
        <Link to="/presets/$template/$preset" params={{ template: pool.template, preset: pool.preset }} className="link text-ink">
          {pool.template}/{pool.preset}
        </Link>
        , which keeps {counted(pool.desired, "workspace")} ready.
      </p>
    );
  }
  if (!may("apply")) return <p className="text-ink-2">Your role cannot create pools. Ask a template admin for the first one.</p>;
  return (
    <>
      <p className="text-ink-2">
        A pool is a few lines of YAML. This one keeps three shells ready on the machine of the server. Any other is made the
        same way, with <code>prewarm apply</code>.
      </p>
      <pre tabIndex={0} aria-label="quickstart.yaml" className="max-h-72 overflow-auto rounded-lg bg-sunken p-4 font-mono text-xs">
        {source.trim()}
      </pre>
      {apply.error && <Notice tone="bad">{apply.error.message}</Notice>}
      <Button
        look="primary"
        className="self-start"
        busy={apply.isPending}
        onClick={() => apply.mutate({ body: { document: source, file: "quickstart.yaml" } })}
      >
        Create this pool
      </Button>
    </>
  );
}

function Fill({ pool }: { pool: Pool }) {
  return (
    <>
      <p className="text-ink-2" role="status">
        {warm(pool)
          ? `${counted(pool.slots.ready, "workspace")} ${verb(pool.slots.ready, "is", "are")} ready. The next claim does not wait.`
          : `${pool.slots.ready} of ${pool.desired} ready, ${pool.slots.starting} being built.`}
      </p>
      <Strip slots={slotsOf(pool)} />
    </>
  );
}

function Take({ pool, claimed, onClaim }: {
  pool: Pool;
  claimed: { claim: Claim; ms: number } | undefined;
  onClaim: (claimed: { claim: Claim; ms: number }) => void;
}) {
  const act = useAct("create-claim");
  const claim = async () => {
    const began = performance.now();
    try {
      const got = await act.mutateAsync({
        body: { template: pool.template, preset: pool.preset, mode: "prefer", wait: "20s" },
      });
      if (got.name) onClaim({ claim: got, ms: performance.now() - began });
      else toast(`No workspace: ${got.reason ?? "the pool is empty"}`, true);
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e), true);
    }
  };
  if (!claimed?.claim.name) {
    return (
      <>
        <p className="text-ink-2">It is yours until you release it. The pool builds another in its place.</p>
        <Button look="primary" icon="person" className="self-start" busy={act.isPending} onClick={() => void claim()}>
          Claim one
        </Button>
      </>
    );
  }
  const { claim: got, ms } = claimed;
  return (
    <>
      <p role="status">
        <Link to="/workspaces/$workspace" params={{ workspace: got.name ?? "" }} className="link font-mono font-semibold">
          {got.name}
        </Link>{" "}
        is yours. It took <b>{Math.max(1, Math.round(ms))} ms</b>, to this page and back.
      </p>
      <p className="text-ink-2">Enter it from a terminal:</p>
      <code className="block overflow-x-auto rounded-lg bg-sunken px-3 py-2 font-mono text-xs whitespace-nowrap">
        prewarm workspace exec {got.name} -- sh
      </code>
      <p>
        <Link to="/" className="link">
          Watch the pool fill up again
        </Link>
      </p>
    </>
  );
}
