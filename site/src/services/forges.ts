import { useQuery } from "@tanstack/react-query";
import type { ForgeEntity } from "../generated/api";
import { read } from "./query";
import { useMay } from "./session";

/** forgeOf is the forge that a preset has runners of; nothing where it has none. */
export function forgeOf<F extends Pick<ForgeEntity, "presets">>(
  forges: readonly F[] | undefined,
  template: string,
  preset: string,
): F | undefined {
  return forges?.find((f) => f.presets.includes(`${template}/${preset}`));
}

/** useForges is all forges, for who may read them. */
export function useForges(): readonly ForgeEntity[] | undefined {
  const may = useMay();
  return useQuery({ ...read("list-forges"), enabled: may("list-forges") }).data;
}
