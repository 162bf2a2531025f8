import { useQuery } from "@tanstack/react-query";
import { Problem } from "../../../services/api";
import type { Process, Workspace } from "../../../generated/api";
import { read, useRead } from "../../../services/query";

/**
 * useInside is what runs in a workspace, where who is signed in may enter it and its agent lets them; undefined elsewhere. It
 * is the claim's user who may, and nobody for them.
 */
export function useInside(w: Workspace | undefined): readonly Process[] | undefined {
  const user = useRead("whoami").data?.user;
  const mine = w !== undefined && w.state === "claimed" && w.agent !== undefined && w.owner === user;
  const { data, error } = useQuery({ ...read("list-processes", { params: { workspace: w?.name ?? "" } }), enabled: mine });
  if (!mine || (error instanceof Problem && error.status === 501)) return undefined;
  return data;
}
