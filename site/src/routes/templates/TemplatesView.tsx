import { Link } from "@tanstack/react-router";
import { Badge } from "../../components/StateBadge";
import { Strip, type Slots } from "../../components/Strip";
import { Table } from "../../components/Table";
import { RelativeTime } from "../../components/Time";
import type { Pool, Template } from "../../generated/api";
import { slotsOf } from "../../services/pools";

/** sum is the strip of several pools. */
export function sum(pools: readonly Pool[]): Slots {
  const total: Slots = { ready: 0, outdated: 0, starting: 0, empty: 0, draining: 0, failed: 0, claimed: 0 };
  for (const pool of pools) {
    const slots = slotsOf(pool);
    for (const kind of Object.keys(total) as (keyof Slots)[]) total[kind] += slots[kind];
  }
  return total;
}

/** rolling is what becomes of a template's rollout: the worst of its presets; nothing where none is under way. */
export function rolling(pools: readonly Pool[]): "stopped" | "progressing" | undefined {
  if (pools.some((p) => p.rollout?.phase === "stopped")) return "stopped";
  return pools.some((p) => p.rollout) ? "progressing" : undefined;
}

export function TemplatesView({ templates, pools }: { templates: readonly Template[]; pools: readonly Pool[] }) {
  const by = new Map<string, Pool[]>();
  for (const pool of pools) by.set(pool.template, [...(by.get(pool.template) ?? []), pool]);
  return (
    <Table
      label="Templates"
      rows={templates}
      keyOf={(t) => t.id}
      columns={[
        {
          title: "Template",
          cell: (t) => (
            <div className="min-w-0">
              <span className="inline-flex flex-wrap items-center justify-end gap-2 md:justify-start">
                <Link to="/templates/$template" params={{ template: t.name }} className="link font-medium">
                  {t.name}
                </Link>
                {t.deprecated_at && <Badge icon="alert" colour="text-draining" text="deprecated" />}
              </span>
              {t.description && <p className="text-ink-2">{t.description}</p>}
            </div>
          ),
        },
        {
          title: "Workspaces",
          cell: (t) => <Strip slots={sum(by.get(t.name) ?? [])} room={16} />,
        },
        {
          title: "Version",
          cell: (t) => (
            <span className="inline-flex flex-wrap items-center justify-end gap-2 md:justify-start">
              {t.active_version}
              <Rolling phase={rolling(by.get(t.name) ?? [])} />
            </span>
          ),
        },
        {
          title: "Presets",
          cell: (t) => (
            <div className="flex flex-wrap justify-end gap-x-3 md:justify-start">
              {t.presets.slice(0, 6).map((p) => (
                <Link key={p} to="/presets/$template/$preset" params={{ template: t.name, preset: p }} className="link">
                  {p}
                </Link>
              ))}
              {t.presets.length > 6 && <span className="text-ink-2">and {t.presets.length - 6} more</span>}
            </div>
          ),
        },
        { title: "Provider", cell: (t) => t.provider },
        { title: "Changed", cell: (t) => <RelativeTime at={t.updated_at} />, right: true },
      ]}
    />
  );
}

/** Rolling is the phase of a rollout, where there is one. */
export function Rolling({ phase }: { phase: "stopped" | "progressing" | undefined }) {
  if (phase === "stopped") return <Badge icon="alert" colour="text-failed" text="rollout stopped" />;
  if (phase === "progressing") return <Badge icon="refresh" colour="text-starting" text="rolling out" />;
  return null;
}
