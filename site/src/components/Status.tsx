import type { ReactNode } from "react";
import { Problem } from "../services/api";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";
import { useLost } from "./LostBanner";

/** EmptyState says that there is nothing, why, and what to do about it. */
export function EmptyState({ icon = "empty", title, children }: { icon?: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="card flex flex-col items-center gap-2 px-6 py-14 text-center">
      <span className="mb-2 rounded-full bg-sunken p-3 text-ink-2">
        <Icon name={icon} className="size-6" />
      </span>
      <p className="text-base font-semibold">{title}</p>
      {children && <div className="max-w-prose text-ink-2">{children}</div>}
    </div>
  );
}

/** ErrorState says what could not be read, and offers to try again. */
export function ErrorState({ error, retry }: { error: unknown; retry?: () => void }) {
  const gone = error instanceof Problem && error.status === 404;
  const lost = useLost();
  if (lost && error instanceof Problem && error.status === 0) return null; // the banner says it
  return (
    <div role="alert" className="card flex flex-wrap items-center gap-4 border-failed px-5 py-4">
      <Icon name="alert" className="size-5 text-failed" />
      <div className="min-w-0 grow">
        <p className="font-semibold">{gone ? "Not found" : "Could not load this"}</p>
        <p className="break-words text-ink-2">{error instanceof Error ? error.message : String(error)}</p>
      </div>
      {retry && !gone && (
        <Button icon="refresh" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Loading keeps the place of what is still to come. */
export function Loading({ label = "Loading", lines = 3 }: { label?: string; lines?: number }) {
  return (
    <div role="status" aria-label={label} className="card flex animate-pulse flex-col gap-4 p-5">
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} className="h-5 rounded bg-sunken" style={{ width: `${90 - ((i * 23) % 50)}%` }} />
      ))}
    </div>
  );
}

/** Notice is a sentence that should be seen before what follows. */
export function Notice({ tone = "plain", icon, children }: {
  tone?: "plain" | "warning" | "bad";
  icon?: IconName;
  children: ReactNode;
}) {
  const colour = { plain: "text-starting", warning: "text-draining", bad: "text-failed" }[tone];
  return (
    <div className="card flex items-start gap-3 px-4 py-3">
      <Icon name={icon ?? (tone === "plain" ? "clock" : "alert")} className={`mt-0.5 size-5 ${colour}`} />
      <div className="min-w-0 grow break-words">{children}</div>
    </div>
  );
}
