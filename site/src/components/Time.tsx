import { age, duration, instant, useNow } from "../services/time";

/** RelativeTime is an instant as its distance from now; the instant itself, with its time zone, is its title. */
export function RelativeTime({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={instant(at)} className="whitespace-nowrap tabular-nums">
      {age(new Date(at).getTime(), now)}
    </time>
  );
}

/** Duration is a time span in milliseconds. */
export function Duration({ ms }: { ms: number }) {
  return <span className="whitespace-nowrap tabular-nums">{duration(ms)}</span>;
}

/** Since counts up from an instant. */
export function Since({ at }: { at: string }) {
  const now = useNow();
  return <Duration ms={Math.max(0, Math.floor((now - new Date(at).getTime()) / 1_000) * 1_000)} />;
}
