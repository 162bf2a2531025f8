import { age, duration, useNow } from "../services/time";

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** RelativeTime is an instant as its distance from now; the instant itself is its title. */
export function RelativeTime({ at }: { at: string }) {
  const now = useNow();
  const instant = new Date(at);
  return (
    <time dateTime={at} title={full.format(instant)} className="whitespace-nowrap tabular-nums">
      {age(instant.getTime(), now)}
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
