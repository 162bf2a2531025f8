import { counted } from "../services/words";

const bar = 5;
const gap = 2;

/** percent is a share that is 100 % only if nothing is missing. */
export function percent(part: number, whole: number): string {
  if (whole === 0) return "–";
  const value = Math.floor((part / whole) * 1_000) / 10;
  return `${value === 100 || value >= 10 ? value.toFixed(value === 100 ? 0 : 1) : value} %`;
}

/**
 * Hours is a day of claims: a bar for each hour, its hits below and what missed above, apart from them and hatched by its
 * outline. `hours` are claims and hits in turns, the oldest first.
 */
export function Hours({ hours, height = 22, wide = false }: { hours: readonly number[]; height?: number; wide?: boolean }) {
  const pairs = Array.from({ length: 24 }, (_, i) => ({ claims: hours[2 * i] ?? 0, hits: hours[2 * i + 1] ?? 0 }));
  const top = Math.max(1, ...pairs.map((p) => p.claims));
  const claims = pairs.reduce((sum, p) => sum + p.claims, 0);
  const hits = pairs.reduce((sum, p) => sum + p.hits, 0);
  const label = claims === 0 ? "No claims in 24 hours" : `${counted(claims, "claim")} in 24 hours, ${counted(hits, "hit")} among them`;
  const width = 24 * (bar + gap) - gap;
  const scale = (height - 2) / top;
  const x = (i: number) => i * (bar + gap);
  const line = pairs.map((_, i) => `M${x(i)} ${height - 1}h${bar}v1h-${bar}z`);
  const good = pairs.map((p) => (p.hits === 0 ? 0 : Math.max(1.5, p.hits * scale)));
  const hit = good.map((tall, i) => (tall === 0 ? "" : `M${x(i)} ${height}v-${tall - 1}q0-1 1-1h${bar - 2}q1 0 1 1v${tall - 1}z`));
  const missed = pairs.map((p, i) => {
    const tall = p.claims === p.hits ? 0 : Math.max(2.5, (p.claims - p.hits) * scale);
    if (tall === 0) return "";
    return `M${x(i) + 0.6} ${Math.max(0.6, height - (good[i] ?? 0) - tall)}h${bar - 1.2}v${Math.max(1, tall - 1.4)}h-${bar - 1.2}z`;
  });
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      preserveAspectRatio="none"
      className={wide ? "w-full" : "max-w-full"}
    >
      <title>{label}</title>
      <path d={line.join("")} className="fill-line" />
      {hits > 0 && <path d={hit.join("")} className="fill-ready" />}
      {claims > hits && <path d={missed.join("")} className="fill-surface stroke-failed" strokeWidth="1.2" />}
    </svg>
  );
}
