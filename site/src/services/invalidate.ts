import type { QueryClient, QueryKey } from "@tanstack/react-query";
import type { Operations } from "../generated/api";
import { refresh } from "./query";
import type { News } from "./stream";

/**
 * Which reads a hint makes stale, by its topic. A new page adds its operations here. list-pools is not among them:
 * services/pools.ts reads just the pools that have changed.
 */
const stale: Record<string, readonly (keyof Operations)[]> = {
  workspace: ["get-workspace", "list-workspaces", "list-runners", "get-runner"],
  claim: ["list-workspaces", "list-claims", "list-quotas"],
  preset: [
    "get-preset",
    "list-presets",
    "explain-preset",
    "list-preset-failures",
    "get-preset-schedule",
    "get-template-rollout",
  ],
  template: [
    "get-template",
    "list-templates",
    "list-template-versions",
    "get-template-rollout",
    "get-preset",
    "explain-preset",
    "get-preset-schedule",
  ],
  version: ["get-template", "list-templates", "list-template-versions", "get-template-rollout"],
  provider: ["list-providers"],
  replica: ["list-replicas", "get-last-pass"],
  pause: ["list-pauses", "get-preset", "list-presets", "explain-preset"],
  token: ["list-tokens"],
  "signing-key": ["list-signing-keys"],
  audit: ["list-audit"],
  forge: ["list-forges", "list-forge-credentials"],
  "forge-job": ["list-forge-jobs", "list-forges", "list-runners", "get-runner"],
  runner: ["list-runners", "get-runner", "list-forges"],
};

/** affected says whether what a key stands for may have changed. What names one workspace goes by its id once it is read. */
export function affected(key: QueryKey, data: unknown, news: News): boolean {
  if (news.everything) return true;
  const id = key[0] as keyof Operations;
  return news.hints.some((hint) => {
    if (!stale[hint.topic]?.includes(id)) return false;
    const own = idOf(data);
    return !named.has(`${hint.topic} ${id}`) || own === undefined || own === hint.id;
  });
}

/** Reads that show one thing, whose own id the hint carries. */
const named = new Set(["workspace get-workspace", "preset get-preset", "template get-template"]);

function idOf(data: unknown): string | undefined {
  return typeof data === "object" && data !== null && "id" in data ? String(data.id) : undefined;
}

/** invalidate has what is shown, and may have changed, read again. */
export function invalidate(client: QueryClient, news: News): void {
  void refresh(client, (query) => affected(query.queryKey, query.state.data, news));
}
