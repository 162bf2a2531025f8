import { useEffect, useRef, useState } from "react";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Dialog";
import { Icon } from "../../components/Icon";
import { Section } from "../../components/Page";
import { address, request } from "../../services/api";
import { duration } from "../../services/time";
import { counted } from "../../services/words";

/** Verdict is a line of the answer of check-provider, which is a stream and so has no type of its own. */
export interface Verdict {
  case: string;
  about: string;
  outcome: "passed" | "failed" | "not_offered";
  nicer?: boolean;
  detail?: string;
  took_ms: number;
}

const looks = {
  passed: { icon: "check", colour: "text-ready", word: "passed" },
  failed: { icon: "cross", colour: "text-failed", word: "failed" },
  not_offered: { icon: "empty", colour: "text-ink-2", word: "not offered" },
  not_nice: { icon: "alert", colour: "text-starting", word: "failed, and would be nicer" },
} as const;

/** safe says whether a verdict leaves the provider safe to use. */
const safe = (v: Verdict) => v.outcome !== "failed" || v.nicer === true;
const lookOf = (v: Verdict) => looks[v.outcome === "failed" && v.nicer ? "not_nice" : v.outcome];

/** lines takes what came of a stream, and gives the whole lines of it and what is left. */
export function lines(rest: string, chunk: string): { whole: string[]; rest: string } {
  const parts = (rest + chunk).split("\n");
  return { rest: parts.pop() ?? "", whole: parts.filter((l) => l.trim() !== "") };
}

async function check(provider: string, signal: AbortSignal, report: (v: Verdict) => void): Promise<void> {
  const { method, url } = address("check-provider", { provider });
  const response = await request(url, {
    method,
    signal,
    headers: { "Content-Type": "application/json" },
    body: "{}",
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const next = await reader?.read();
    if (!next || next.done) return;
    const got = lines(rest, next.value);
    rest = got.rest;
    for (const line of got.whole) report(JSON.parse(line) as Verdict);
  }
}

/** Check runs the contract that all providers must keep against this one, case by case. */
export function Check({ provider }: { provider: string }) {
  const [verdicts, setVerdicts] = useState<readonly Verdict[]>([]);
  const [state, setState] = useState<"idle" | "running" | "ended" | "stopped">("idle");
  const [error, setError] = useState("");
  const abort = useRef<AbortController>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const start = () => {
    const controller = new AbortController();
    abort.current = controller;
    setVerdicts([]);
    setError("");
    setState("running");
    check(provider, controller.signal, (v) => setVerdicts((all) => [...all, v])).then(
      () => setState("ended"),
      (e: unknown) => {
        setState("stopped");
        if (!controller.signal.aborted) setError(e instanceof Error ? e.message : String(e));
      },
    );
    return Promise.resolve();
  };
  const failed = verdicts.filter((v) => !safe(v)).length;
  return (
    <Section
      title="Check"
      beside={
        state === "running" ? (
          <Button icon="cross" onClick={() => abort.current?.abort()}>
            Stop
          </Button>
        ) : (
          <Confirm
            act={state === "idle" ? "Check provider" : "Check again"}
            icon="play"
            title={`Check ${provider} against the contract?`}
            effect="A few workspaces of one of its presets are made there one after the other, and deleted again. Nothing else is touched. On a cloud this takes minutes, and costs what they cost."
            done={`${provider} is being checked.`}
            run={start}
          />
        )
      }
    >
      {state === "idle" && (
        <p className="text-sm text-ink-2">Whether it keeps the contract that all providers must keep: on a few workspaces of its own.</p>
      )}
      {state !== "idle" && (
        <p role="status" className="mb-2 text-sm text-ink-2">
          {state === "running" && `${counted(verdicts.length, "case")} so far; this page must stay open.`}
          {state === "stopped" && "Stopped; what it made is deleted."}
          {state === "ended" &&
            (failed === 0 ? "It is safe to use." : `It is not safe to use: ${failed} of ${counted(verdicts.length, "case")} failed.`)}
        </p>
      )}
      {error && (
        <p role="alert" className="mb-2 text-sm break-words text-failed">
          {error}
        </p>
      )}
      {verdicts.length > 0 && (
        <ol className="-my-1 divide-y divide-line text-sm" aria-label="Cases">
          {verdicts.map((v) => (
            <li key={v.case} className="flex items-start gap-2.5 py-2">
              <Icon name={lookOf(v).icon} className={`mt-0.5 size-4 ${lookOf(v).colour}`} />
              <div className="min-w-0 grow">
                <p className="break-words">
                  {v.about} <span className="text-ink-2">({lookOf(v).word})</span>
                </p>
                {v.detail && <p className="mt-0.5 font-mono text-xs break-words whitespace-pre-wrap text-failed">{v.detail}</p>}
              </div>
              <span className="text-xs text-ink-2 tabular-nums">{duration(v.took_ms)}</span>
            </li>
          ))}
        </ol>
      )}
    </Section>
  );
}
