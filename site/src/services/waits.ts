import { useSyncExternalStore } from "react";
import type { Claim } from "../generated/api";
import { callUntil } from "./api";

/** How long a claim that is made on the page waits at most. It ends when it is cancelled, or with the tab. */
const longest = "15m";

/** Wait is a claim of this tab that waits for its workspace. */
export interface Wait {
  id: number;
  template: string;
  preset: string;
  /** When it began, in milliseconds. */
  since: number;
  /** cancel gives up the place in line. */
  cancel: () => void;
}

let waits: readonly Wait[] = [];
let last = 0;
const watchers = new Set<() => void>();

function set(next: readonly Wait[]): void {
  waits = next;
  for (const watcher of watchers) watcher();
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** useWaits are the claims of this tab that wait, on whichever page one is. */
export function useWaits(): readonly Wait[] {
  return useSyncExternalStore(watch, () => waits);
}

/**
 * claim takes a ready workspace, or waits for one until it is cancelled, and answers undefined then. With now it does not wait.
 */
export async function claim(template: string, preset: string, now: boolean): Promise<Claim | undefined> {
  const abort = new AbortController();
  const wait: Wait = { id: ++last, template, preset, since: Date.now(), cancel: () => abort.abort() };
  set([...waits, wait]);
  try {
    return await callUntil(abort.signal, "create-claim", {
      body: { template, preset, ...(now ? { mode: "require" } : { mode: "prefer", wait: longest }) },
    });
  } catch (e) {
    if (abort.signal.aborted) return undefined;
    throw e;
  } finally {
    set(waits.filter((w) => w.id !== wait.id));
  }
}
