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
      {pairs.map((p, i) => {
        const x = i * (bar + gap);
        const scale = (height - 2) / top;
        const good = p.hits === 0 ? 0 : Math.max(1.5, p.hits * scale);
        const missed = p.claims - p.hits;
        const bad = missed === 0 ? 0 : Math.max(2.5, missed * scale);
        return (
          <g key={i}>
            <rect x={x} y={height - 1} width={bar} height={1} className="fill-line" />
            {good > 0 && <rect x={x} y={height - good} width={bar} height={good} rx={1} className="fill-ready" />}
            {bad > 0 && (
              <rect
                x={x + 0.6}
                y={Math.max(0.6, height - good - bad)}
                width={bar - 1.2}
                height={Math.max(1, bad - 1.4)}
                className="fill-surface stroke-failed"
                strokeWidth="1.2"
              />
            )}
          </g>
        );
      })}
    </svg>
  );
}
