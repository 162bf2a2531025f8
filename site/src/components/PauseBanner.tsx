import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import type { Pause } from "../generated/api";
import { read, useAct } from "../services/query";
import { useMay } from "../services/session";
import { Confirm } from "./Dialog";
import { Icon } from "./Icon";
import { RelativeTime } from "./Time";

/** PauseBanner says on every page that all pools are paused. */
export function PauseBanner() {
  const may = useMay();
  const pauses = useQuery({ ...read("list-pauses"), enabled: may("list-pauses") });
  const all = pauses.data?.find((p) => p.scope === "global");
  if (!all) return null;
  return <PauseBannerView pause={all} action={may("delete-pause") && <Resume pause={all} />} />;
}

export function PauseBannerView({ pause, action }: { pause: Pause; action?: ReactNode }) {
  return (
    <section
      aria-label="Global pause"
      className="flex flex-wrap items-center gap-3 border-b border-line bg-surface px-4 py-2.5 sm:px-8"
    >
      <p className="min-w-0 grow basis-60 break-words">
        <Icon name="pause" className="mr-2 inline size-5 text-draining" />
        <b className="font-semibold">All pools are paused</b> by {pause.created_by}: {pause.reason}. Claims go on; what is
        claimed is not replaced
        {pause.expires_at ? (
          <>
            . The pause ends <RelativeTime at={pause.expires_at} />.
          </>
        ) : (
          " until somebody resumes."
        )}
      </p>
      {action}
    </section>
  );
}

/** Resume ends one pause. */
export function Resume({ pause }: { pause: Pause }) {
  const resume = useAct("delete-pause");
  const what = pause.target ?? "all pools";
  return (
    <Confirm
      act="Resume"
      icon="play"
      title={`Resume ${what}?`}
      effect="The next pass creates and drains again as needed."
      done={`Resumed ${what}.`}
      run={() => resume.mutateAsync({ params: { scope: pause.scope, ...(pause.target && { target: pause.target }) } })}
    />
  );
}
