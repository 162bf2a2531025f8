import { Link } from "@tanstack/react-router";
import { Icon, type IconName } from "../../components/Icon";
import { Section } from "../../components/Page";
import { Problem } from "../../services/api";
import type { Change, Plan } from "../../generated/api";
import { actions, busy, deeds, headingOf, place, subject } from "./plan";
import { counted } from "../../services/words";

const icons: Record<Change["action"], { icon: IconName; colour: string }> = {
  create: { icon: "check", colour: "text-ready" },
  activate: { icon: "back", colour: "text-starting" },
  update: { icon: "refresh", colour: "text-starting" },
  delete: { icon: "trash", colour: "text-failed" },
};

const mostPresets = 100;

/** PlanView says what a file would change, and what the next pass would then do. */
export function PlanView({ plan }: { plan: Plan }) {
  const moving = busy(plan);
  return (
    <>
      <Section title="What the file changes">
        {plan.changes.length === 0 ? (
          <p className="text-ink-2">Nothing: everything is as the file says.</p>
        ) : (
          <div className="flex flex-col gap-5">
            {actions.map((action) => {
              const changes = plan.changes.filter((c) => c.action === action);
              if (changes.length === 0) return null;
              return (
                <div key={action}>
                  <h3 className="mb-1.5 flex items-center gap-2 text-sm font-semibold">
                    <Icon name={icons[action].icon} className={`size-4 ${icons[action].colour}`} />
                    {headingOf(action)}
                    <span className="font-normal text-ink-2">{changes.length}</span>
                  </h3>
                  <ul className="flex flex-col gap-1.5 border-l-2 border-line pl-4">
                    {changes.map((c) => (
                      <Line key={`${c.kind} ${c.name}`} change={c} />
                    ))}
                  </ul>
                </div>
              );
            })}
          </div>
        )}
      </Section>
      <Section title="What the next pass then does" beside={deeds(plan.totals).join(", ") || "nothing"}>
        {moving.length === 0 ? (
          <p className="text-ink-2">Nothing: every pool has what it should have, or is on its way to it.</p>
        ) : (
          <ul className="-my-1 divide-y divide-line">
            {moving.slice(0, mostPresets).map((p) => (
              <li key={`${p.template}/${p.preset}`} className="flex flex-wrap items-baseline gap-x-6 gap-y-1 py-2.5">
                <span className="min-w-40 font-medium break-words">
                  {p.template}/{p.preset}
                </span>
                <span className="min-w-0 grow break-words">
                  {p.error ? <span className="text-failed">{p.error}</span> : sentence(deeds(p).join(", "))}
                </span>
                <span className="text-sm text-ink-2 tabular-nums">
                  {p.actual} ready of {p.desired} wanted
                </span>
              </li>
            ))}
          </ul>
        )}
        {moving.length > mostPresets && (
          <p className="mt-3 text-sm text-ink-2">and {counted(moving.length - mostPresets, "more preset")} in the sum above.</p>
        )}
      </Section>
    </>
  );
}

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function Line({ change: c }: { change: Change }) {
  return (
    <li className="min-w-0 text-sm break-words">
      {subject(c)}
      {c.effect && <span className="text-ink-2">: {c.effect}</span>}
      {c.fields && c.fields.length > 0 && (
        <ul className="mt-0.5 font-mono text-xs text-ink-2">
          {c.fields.map((f) => (
            <li key={f} className="break-all">
              {f.replace(" -> ", " → ")}
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

/** Refusal says why a file is not applied, each time with the line of the file and the setting. */
export function Refusal({ error, source }: { error: unknown; source: string }) {
  const problem = error instanceof Problem ? error : undefined;
  const lines = source.split("\n");
  const [first = "", ...rest] = (error instanceof Error ? error.message : String(error)).split("\n");
  return (
    <div role="alert" className="card flex items-start gap-3 border-failed px-5 py-4">
      <Icon name="alert" className="mt-0.5 size-5 text-failed" />
      <div className="min-w-0 grow">
        <p className="font-semibold break-words">{headline(problem?.status, first)}</p>
        {rest.length > 0 && <p className="mt-1 text-sm break-words whitespace-pre-wrap text-ink-2">{rest.join("\n")}</p>}
        {problem && problem.errors.length > 0 && (
          <ul className="mt-3 flex flex-col gap-3">
            {problem.errors.map((e, i) => {
              const at = place(e.location);
              const line = at && lines[at.line - 1];
              return (
                <li key={i} className="min-w-0 text-sm">
                  <p className="break-words">{e.message}</p>
                  {at && line !== undefined && (
                    <pre className="mt-1 overflow-x-auto rounded-lg bg-sunken px-3 py-1.5 font-mono text-xs" tabIndex={0}>
                      <span className="mr-3 text-ink-2 select-none">{at.line}</span>
                      {line}
                    </pre>
                  )}
                </li>
              );
            })}
          </ul>
        )}
      </div>
    </div>
  );
}

function headline(status: number | undefined, first: string): string {
  if (status === 409) return sentence(first);
  if (status === 422) return "The file is not applied: something in it is wrong";
  return sentence(first);
}

/** Applied is what was done. */
export function Applied({ changes }: { changes: readonly Change[] }) {
  const templates = [...new Set(changes.filter((c) => c.kind !== "provider" && c.action !== "delete").map((c) => c.name.split("/")[0] ?? ""))];
  return (
    <div role="status" className="card flex items-start gap-3 border-ready px-5 py-4">
      <Icon name="check" className="mt-0.5 size-5 text-ready" />
      <div className="min-w-0 grow">
        <p className="font-semibold">
          {changes.length === 0 ? "Everything is as the file says" : `Applied: ${changes.length === 1 ? "1 change" : `${changes.length} changes`}`}
        </p>
        {templates.length > 0 && (
          <p className="mt-1 flex flex-wrap gap-x-3 text-ink-2">
            Watch progress:
            {templates.slice(0, 12).map((t) => (
              <Link key={t} to="/templates/$template" params={{ template: t }} className="link text-ink">
                {t}
              </Link>
            ))}
          </p>
        )}
      </div>
    </div>
  );
}
