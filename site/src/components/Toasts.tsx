import { useSyncExternalStore } from "react";
import { Icon } from "./Icon";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

let toasts: readonly Toast[] = [];
let last = 0;
const watchers = new Set<() => void>();

function set(next: readonly Toast[]): void {
  toasts = next;
  for (const watcher of watchers) watcher();
}

const dismiss = (id: number) => set(toasts.filter((t) => t.id !== id));

/** toast says in passing what came of an act. What went wrong stays until it is dismissed. */
export function toast(text: string, bad = false): void {
  const id = ++last;
  set([...toasts.slice(-3), { id, text, bad }]);
  if (!bad) setTimeout(() => dismiss(id), 6_000);
}

/** Toasts shows them; it is there once, in the shell. */
export function Toasts() {
  const shown = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => toasts,
  );
  return (
    <div className="pointer-events-none fixed inset-x-4 bottom-4 z-30 flex flex-col items-end gap-2" aria-live="polite">
      {shown.map((t) => (
        <div key={t.id} className="card pointer-events-auto flex max-w-md items-start gap-3 py-3 pr-2 pl-4">
          <Icon name={t.bad ? "alert" : "check"} className={`mt-0.5 size-5 ${t.bad ? "text-failed" : "text-ready"}`} />
          <p className="min-w-0 break-words">{t.text}</p>
          <button
            type="button"
            className="rounded-md p-1 text-ink-2 hover:bg-sunken"
            aria-label="Dismiss"
            onClick={() => dismiss(t.id)}
          >
            <Icon name="cross" />
          </button>
        </div>
      ))}
    </div>
  );
}
