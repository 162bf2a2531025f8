import { Section } from "../../components/Page";
import type { Schedule } from "../../generated/api";
import { bareTime, zone } from "../../services/time";

const day = 86_400_000;

interface Part {
  from: number; // share of the day
  to: number;
  instances: number;
  label: string;
}

/** days cuts the windows of a schedule at midnight, as the browser's clock has it. */
export function days(schedule: Schedule, from: Date, count = 7): { date: Date; parts: Part[] }[] {
  const first = new Date(from.getFullYear(), from.getMonth(), from.getDate());
  return Array.from({ length: count }, (_, i) => {
    const date = new Date(first.getFullYear(), first.getMonth(), first.getDate() + i);
    const start = date.getTime();
    const parts = schedule.windows.flatMap((w) => {
      const a = Math.max(0, (new Date(w.from).getTime() - start) / day);
      const b = Math.min(1, (new Date(w.to).getTime() - start) / day);
      return b > a ? [{ from: a, to: b, instances: w.instances, label: `${bareTime(new Date(w.from))} to ${bareTime(new Date(w.to))} ${zone(new Date(w.from))}` }] : [];
    });
    return { date, parts };
  });
}

/** Week is what a schedule wants over the days to come: the more, the darker, and the number is written in it. */
export function Week({ schedule }: { schedule: Schedule }) {
  const top = Math.max(1, ...schedule.windows.map((w) => w.instances));
  return (
    <Section title="Schedule" beside={`Set in ${schedule.timezone}, shown in ${zone()}`}>
      <ul className="flex flex-col gap-1.5">
        {days(schedule, new Date()).map(({ date, parts }) => (
          <li key={date.getTime()} className="flex items-center gap-3 text-xs">
            <span className="w-8 shrink-0 text-ink-2">{date.toLocaleDateString(undefined, { weekday: "short" })}</span>
            <span className="relative h-6 grow overflow-hidden rounded bg-sunken">
              {parts.map((p) => (
                <span
                  key={p.from}
                  title={`${p.label}: ${p.instances}`}
                  className="absolute inset-y-0 grid place-items-center overflow-hidden border-r border-surface text-ink tabular-nums"
                  style={{
                    left: `${p.from * 100}%`,
                    width: `${(p.to - p.from) * 100}%`,
                    background: `color-mix(in srgb, var(--ready) ${Math.round((p.instances / top) * 38)}%, transparent)`,
                  }}
                >
                  {p.instances}
                </span>
              ))}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
