import type { Part } from "../../components/Bar";
import type { ClaimRecord } from "../../generated/api";

/** stages are those of a claim that are known, in their order; their values are milliseconds. */
export function stages(c: Pick<ClaimRecord, "receipt">): Part[] {
  const r = c.receipt ?? {};
  const all: [string, number | undefined, string, boolean][] = [
    ["waited", r.wait_ms, "text-draining", false],
    ["told", r.told_ms, "text-starting", true],
    ["on_claim", r.hook_ms, "text-claimed", false],
  ];
  return all.flatMap(([name, value, colour, hatched]) => (value === undefined ? [] : [{ name, value, colour, hatched }]));
}

const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** milliseconds of a duration as the server writes it, such as 2h30m0s. */
export function milliseconds(text: string): number {
  let sum = 0;
  for (const [, n, unit] of text.matchAll(/([\d.]+)(ms|h|m|s)/g)) sum += Number(n) * (units[unit ?? ""] ?? 0);
  return sum;
}

/** leaseLeft is what is left of a lease, in milliseconds and as a share of all of it; nothing where there is none. */
export function leaseLeft(c: Pick<ClaimRecord, "lease" | "lease_until">, now: number): { ms: number; share: number } | undefined {
  if (!c.lease_until) return undefined;
  const ms = new Date(c.lease_until).getTime() - now;
  const whole = c.lease ? milliseconds(c.lease) : 0;
  return { ms, share: whole > 0 ? Math.min(1, Math.max(0, ms / whole)) : ms > 0 ? 1 : 0 };
}
