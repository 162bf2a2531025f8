import { useLayoutEffect, useRef, useState, type PointerEvent, type ReactNode } from "react";
import { ticks, timeTicks, type Scale } from "../services/chart";

const height = 120;
const axis = 20;
const air = 8; // above the largest value

interface Props {
  title: string;
  /** What is drawn, in words: for whoever can't see it. */
  label: string;
  /** Beside the title: what it is at the step that is pointed at, with the marks of the legend. */
  legend: ReactNode;
  from: number;
  /** Length of a step, in milliseconds. */
  step: number;
  steps: number;
  top: number;
  /** Why there is nothing in it, where there is nothing. */
  empty?: string;
  /** The numbers of the axis, where they are no counts. */
  format?: (value: number) => string;
  /** The step that is pointed at. */
  at: number | undefined;
  onAt: (at: number | undefined) => void;
  children: (scale: Scale) => ReactNode;
}

/** Plot is a chart over time: its frame, its axes, and the line under the pointer. What is in it is its child's. */
export function Plot({ title, label, legend, from, step, steps, top, empty, format = String, at, onAt, children }: Props) {
  const [width, ref] = useWidth();
  const whole = format === String;
  const gutter = Math.max(...ticks(top, whole).map((t) => format(t).length)) * 7 + 10;
  const room = Math.max(1, width - gutter);
  const scale: Scale = {
    x: (edge) => gutter + (edge / steps) * room,
    y: (value) => air + (height - air) * (1 - value / top),
  };
  const point = (e: PointerEvent<SVGSVGElement>) => {
    const share = (e.clientX - e.currentTarget.getBoundingClientRect().left - gutter) / room;
    onAt(Math.min(steps - 1, Math.max(0, Math.floor(share * steps))));
  };
  return (
    <figure className="flex min-w-0 flex-col gap-2" aria-label={title}>
      <figcaption className="flex flex-wrap items-baseline justify-between gap-x-4 gap-y-1">
        <span className="text-sm font-medium">{title}</span>
        <span className="flex flex-wrap gap-x-3.5 gap-y-1 text-xs text-ink-2 tabular-nums">{legend}</span>
      </figcaption>
      <div ref={ref} className="min-w-0">
        <svg
          role="img"
          aria-label={label}
          width={width}
          height={height + axis}
          className="block max-w-full touch-pan-y overflow-visible"
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={() => onAt(undefined)}
        >
          <g className="fill-ink-2" fontSize="11">
            {ticks(top, whole).map((t) => (
              <g key={t}>
                <line x1={gutter} x2={width} y1={scale.y(t)} y2={scale.y(t)} className="stroke-line" />
                <text x={gutter - 8} y={scale.y(t)} dy="0.35em" textAnchor="end">
                  {format(t)}
                </text>
              </g>
            ))}
            {timeTicks(from, from + steps * step, Math.max(3, Math.floor(room / 70))).map((t) => {
              const x = scale.x((t.at - from) / step);
              return (
                <g key={t.at}>
                  <line x1={x} x2={x} y1={height} y2={height + 4} className="stroke-line-strong" />
                  <text x={x} y={height + 16} textAnchor={x > width - 24 ? "end" : x < gutter + 12 ? "start" : "middle"}>
                    {t.text}
                  </text>
                </g>
              );
            })}
          </g>
          {empty ? (
            <text x={gutter + room / 2} y={scale.y(top * 0.75)} dy="0.35em" textAnchor="middle" fontSize="12" className="fill-ink-2">
              {empty}
            </text>
          ) : (
            children(scale)
          )}
          {at !== undefined && (
            <line x1={scale.x(at + 0.5)} x2={scale.x(at + 0.5)} y1={0} y2={height} className="stroke-ink" strokeDasharray="2 2" />
          )}
        </svg>
      </div>
    </figure>
  );
}

/** useWidth is how wide an element is, so that what is drawn in it has whole pixels and text of its own size. */
function useWidth() {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth || 480);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [width, ref] as const;
}

const marks = {
  area: <rect x="0.5" y="1" width="11" height="9" rx="1.5" fill="currentColor" fillOpacity="0.35" stroke="currentColor" />,
  hatch: (
    <>
      <rect x="0.5" y="1" width="11" height="9" rx="1.5" fill="none" stroke="currentColor" />
      <path d="M2 9 9 2M5.500 10 11 4.500M1 5.500 5 1.500" stroke="currentColor" />
    </>
  ),
  dashed: <path d="M0 5.500h4m4 0h4" stroke="currentColor" strokeWidth="2" />,
  bar: <rect x="3" y="0.5" width="6" height="10" rx="1" fill="currentColor" />,
  outline: <rect x="3.600" y="1.100" width="4.800" height="8.800" rx="1" fill="none" stroke="currentColor" strokeWidth="1.200" />,
  dot: <circle cx="6" cy="5.500" r="3" fill="currentColor" />,
} as const;

/** Mark is a line of a legend: the shape in which something is drawn, its name, and its value. */
export function Mark({ as, colour, name, value }: { as: keyof typeof marks; colour: string; name: string; value: ReactNode }) {
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      <svg viewBox="0 0 12 11" width="12" height="11" className={colour} aria-hidden="true">
        {marks[as]}
      </svg>
      {name} <b className="font-semibold text-ink">{value}</b>
    </span>
  );
}
