import type { ReactNode } from "react";

/** Facts are names with their values; those without one are left out. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="flex flex-col gap-1.5 text-sm">
      {facts
        .filter(([, value]) => value !== undefined && value !== "" && value !== false && value !== null)
        .map(([name, value]) => (
          <div key={name} className="flex flex-wrap justify-between gap-x-6">
            <dt className="text-ink-2">{name}</dt>
            <dd className="ml-auto min-w-0 text-right break-words">{value}</dd>
          </div>
        ))}
    </dl>
  );
}
