import type { Pool } from "../generated/api";

/** pool is a warm one of three for tests, with what they change. */
export function pool(change: Partial<Omit<Pool, "slots">> & { slots?: Partial<Pool["slots"]> } = {}): Pool {
  const { slots, ...rest } = change;
  return {
    id: "1",
    template: "web",
    preset: "small",
    version: 1,
    provider: "local",
    pool: true,
    desired: 3,
    slots: { ready: 3, outdated: 0, starting: 0, leaving: 0, failed: 0, claimed: 0, ...slots },
    waiting: 0,
    claims: 0,
    hits: 0,
    hours: [],
    reasons: [],
    why: [],
    ...rest,
  };
}
