import type { ClaimRecord } from "../../generated/api";
import { counted } from "../../services/words";

/** Row is one of the list of claims: a claim, a request with a count, or one of its claims below it. */
export interface Row {
  claim: ClaimRecord;
  kind: "claim" | "group" | "member";
}

/** rowsOf are claims with one row for each request with a count; below it its claims, where it is open and they are read. */
export function rowsOf(claims: readonly ClaimRecord[], members: ReadonlyMap<string, readonly ClaimRecord[]> = new Map()): Row[] {
  const seen = new Set<string>();
  return claims.flatMap((claim): Row[] => {
    if (!claim.group) return [{ claim, kind: "claim" }];
    const { id } = claim.group;
    if (seen.has(id)) return [];
    seen.add(id);
    return [{ claim, kind: "group" }, ...(members.get(id) ?? []).map((m): Row => ({ claim: m, kind: "member" }))];
  });
}

/** saysGroup is how a request with a count stands: 3 of 9 ready. It gets all of its workspaces at once. */
export function saysGroup(c: ClaimRecord): string {
  if (!c.group) return "";
  const { count, alike, ready } = c.group;
  if (c.state === "waiting") return `${ready} of ${count} ready`;
  if (c.state === "bound") return alike === count ? `${counted(count, "workspace")}, all in use` : `${alike} of ${count} in use`;
  if (c.state === "missed") return `none of ${counted(count, "workspace")}`;
  return `${alike} of ${count} released`;
}
