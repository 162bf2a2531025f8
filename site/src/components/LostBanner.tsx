import { useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import { connection, type Lost } from "../services/connection";
import { duration, useNow } from "../services/time";
import { Button } from "./Button";
import { Icon } from "./Icon";

/** useLost is since when the server does not answer; nothing while it does. */
export function useLost(): Lost | undefined {
  return useSyncExternalStore(connection.watch, connection.lost);
}

/** LostBanner stands above every page while the server does not answer. */
export function LostBanner() {
  const lost = useLost();
  return lost ? <LostBannerView lost={lost} onTry={() => void connection.try()} /> : null;
}

const seconds = (ms: number) => duration(Math.ceil(ms / 1_000) * 1_000);

export function LostBannerView({ lost, onTry }: { lost: Lost; onTry: () => void }) {
  const now = useNow();
  const ref = useRef<HTMLElement>(null);
  const [busy, setBusy] = useState(false);
  // What sticks to the top of the page sticks below this.
  useLayoutEffect(() => {
    const banner = ref.current;
    if (!banner) return undefined;
    const root = document.documentElement.style;
    const observer = new ResizeObserver(() => root.setProperty("--banner", `${banner.offsetHeight}px`));
    observer.observe(banner);
    return () => {
      observer.disconnect();
      root.removeProperty("--banner");
    };
  }, []);
  const wait = lost.next - now;
  return (
    <section
      ref={ref}
      aria-label="Lost server"
      className="sticky top-0 z-30 flex flex-wrap items-center gap-x-4 gap-y-2 border-b-2 border-failed bg-surface px-4 py-2.5 sm:px-8"
    >
      <p className="flex min-w-0 grow basis-56 gap-2.5">
        <Icon name="alert" className="mt-0.5 size-5 text-failed" />
        <span className="min-w-0">
          <b role="alert" className="font-semibold">
            The server does not answer.
          </b>{" "}
          <span className="tabular-nums">
            What you see is {seconds(Math.max(1_000, now - lost.heard))} old.{" "}
            {wait > 0 ? `Next try in ${seconds(wait)}.` : "Trying now."}
          </span>
        </span>
      </p>
      <Button
        icon="refresh"
        busy={busy}
        onClick={() => {
          setBusy(true);
          onTry();
          setTimeout(() => setBusy(false), 500);
        }}
      >
        Try now
      </Button>
    </section>
  );
}
