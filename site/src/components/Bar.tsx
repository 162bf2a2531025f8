export interface Part {
  name: string;
  value: number;
  /** One of the colours of app.css, as a class for text. */
  colour: string;
  /** hatched tells a part from its neighbour where no colour is seen. */
  hatched?: boolean;
}

/**
 * Bar is how much of a whole each part is; what is left is ground. The label says it in words. Without a whole the parts are
 * all there is.
 */
export function Bar({ parts, whole, label, height = 8 }: { parts: readonly Part[]; whole?: number; label: string; height?: number }) {
  const sum = parts.reduce((n, p) => n + Math.max(0, p.value), 0);
  const total = Math.max(whole ?? sum, sum, 1e-9);
  let at = 0;
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 100 ${height}`}
      preserveAspectRatio="none"
      width="100%"
      height={height}
      className="block overflow-hidden rounded-full bg-sunken"
    >
      <title>{label}</title>
      {parts.map((p) => {
        const width = (Math.max(0, p.value) / total) * 100;
        const x = at;
        at += width;
        if (width === 0) return null;
        const shown = Math.max(width, 0.8); // nothing that is there vanishes
        return (
          <g key={p.name} className={p.colour}>
            <rect x={x} y={0} width={shown} height={height} fill="currentColor" fillOpacity={p.hatched ? 0.35 : 1} />
            {x > 0 && <rect x={x} y={0} width={0.4} height={height} fill="var(--surface)" />}
          </g>
        );
      })}
    </svg>
  );
}
