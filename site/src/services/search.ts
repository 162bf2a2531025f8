import type { ForgeJob, Pool, Template, Workspace } from "../generated/api";

/** So many results are listed. */
const most = 12;

/** Found is one result, and where it leads. */
export interface Found {
  kind: "pool" | "template" | "workspace" | "job";
  name: string;
  to:
    | { to: "/presets/$template/$preset"; params: { template: string; preset: string } }
    | { to: "/templates/$template"; params: { template: string } }
    | { to: "/workspaces/$workspace"; params: { workspace: string } }
    | { to: "/jobs"; search: { show?: "in_progress" | "completed"; template?: string; preset?: string } };
}

/** A whole name of a workspace, also of one that is not in the list. */
const workspaceName = /^prebuild-[a-z2-7]{10,}$/;

/** find lists what has each word of a text in its name, first what begins with it. */
export function find(
  text: string,
  pools: readonly Pool[] = [],
  templates: readonly Template[] = [],
  workspaces: readonly Workspace[] = [],
  jobs: readonly ForgeJob[] = [],
): Found[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const ranked: { rank: number; found: Found }[] = [];
  const add = (also: string, found: Found) => {
    const name = found.name.toLowerCase();
    const all = `${name} ${also.toLowerCase()}`;
    if (!words.every((w) => all.includes(w))) return;
    ranked.push({ rank: name.startsWith(words[0] ?? "") ? 0 : words.every((w) => name.includes(w)) ? 1 : 2, found });
  };
  for (const { template, preset, provider } of pools) {
    add(provider, { kind: "pool", name: `${template}/${preset}`, to: { to: "/presets/$template/$preset", params: { template, preset } } });
  }
  for (const t of templates) {
    add(t.description, { kind: "template", name: t.name, to: { to: "/templates/$template", params: { template: t.name } } });
  }
  for (const w of workspaces) {
    add(`${w.owner ?? ""} ${w.provider_id ?? ""}`, {
      kind: "workspace",
      name: w.name,
      to: { to: "/workspaces/$workspace", params: { workspace: w.name } },
    });
  }
  for (const j of jobs) {
    const show = j.state === "in_progress" || j.state === "completed" ? j.state : undefined;
    add(`${j.job_id} ${j.labels.join(" ")}`, {
      kind: "job",
      name: [j.repository, j.name || `job ${j.job_id}`].filter(Boolean).join(": "),
      to: { to: "/jobs", search: { ...(show && { show }), ...(j.template && { template: j.template }), ...(j.preset && { preset: j.preset }) } },
    });
  }
  const [whole = ""] = words;
  if (words.length === 1 && workspaceName.test(whole) && !workspaces.some((w) => w.name === whole)) {
    ranked.push({ rank: 0, found: { kind: "workspace", name: whole, to: { to: "/workspaces/$workspace", params: { workspace: whole } } } });
  }
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, most)
    .map((r) => r.found);
}
