import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { zone } from "../services/time";
import { Button } from "./Button";

/** How long after the last key a filter is looked by, in milliseconds. */
const settle = 400;

/** Filters is the row of what a list is narrowed by. What they are is in the URL. */
export function Filters({ children }: { children: ReactNode }) {
  return (
    <form role="search" className="flex flex-wrap items-end gap-3" onSubmit={(e) => e.preventDefault()}>
      {children}
    </form>
  );
}

interface FieldProps {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  placeholder?: string;
  /** What is often asked for. */
  suggestions?: readonly string[];
  className?: string;
}

/** Two fields stand beside one another on a narrow screen. */
const half = "w-[calc(50%-0.375rem)] sm:w-44";

/** FilterText narrows by a text, a moment after it was written. */
export function FilterText({ label, value, onChange, placeholder, suggestions, className = half }: FieldProps) {
  const [text, setText] = useState(value ?? "");
  const list = useId();
  const change = useRef(onChange);
  useEffect(() => {
    change.current = onChange;
  });
  useEffect(() => setText(value ?? ""), [value]);
  useEffect(() => {
    if (text.trim() === (value ?? "")) return undefined;
    const timer = setTimeout(() => change.current(text.trim() || undefined), settle);
    return () => clearTimeout(timer);
  }, [text, value]);
  return (
    <label className={`flex flex-col gap-1 text-xs font-medium text-ink-2 ${className}`}>
      {label}
      <input
        className="field h-9 py-1 text-sm font-normal text-ink"
        type="search"
        value={text}
        placeholder={placeholder}
        list={suggestions ? list : undefined}
        autoComplete="off"
        spellCheck={false}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => e.key === "Enter" && onChange(text.trim() || undefined)}
      />
      {suggestions && (
        <datalist id={list}>
          {suggestions.map((s) => (
            <option key={s} value={s} />
          ))}
        </datalist>
      )}
    </label>
  );
}

/** FilterWords narrows by words, each a part of what an entry is found by, as the filter of the pools does. */
export function FilterWords({ of, ...rest }: { of: string } & Pick<FieldProps, "value" | "onChange" | "suggestions">) {
  return <FilterText label="Filter" placeholder={of} className="w-full sm:w-80" {...rest} />;
}

/** Narrowed are whole names that a link has narrowed the list to, each with a button that ends that. */
export function Narrowed({ by }: { by: readonly (readonly [label: string, value: string | undefined, clear: () => void])[] }) {
  return by.map(
    ([label, value, clear]) =>
      value && (
        <Button key={label} icon="cross" className="max-w-full" title={`Show all, not only ${label} ${value}`} onClick={clear}>
          <span className="truncate">
            <span className="text-ink-2">{label}</span> {value}
          </span>
        </Button>
      ),
  );
}

/** FilterChoice narrows by one of a few. */
export function FilterChoice({ label, value, onChange, options, any = "any" }: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  options: readonly (readonly [value: string, label: string])[];
  any?: string;
}) {
  return (
    <label className={`flex flex-col gap-1 text-xs font-medium text-ink-2 ${half}`}>
      {label}
      <select className="field h-9 py-1 text-sm font-normal text-ink" value={value ?? ""} onChange={(e) => onChange(e.target.value || undefined)}>
        <option value="">{any}</option>
        {options.map(([v, name]) => (
          <option key={v} value={v}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

const two = (n: number) => String(n).padStart(2, "0");

/** local is an instant as a field for dates shows it, in the time of the browser; empty where there is none. */
export function local(instant: string | undefined): string {
  if (!instant) return "";
  const d = new Date(instant);
  if (Number.isNaN(d.getTime())) return "";
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`;
}

/** FilterTime narrows by an instant, to the minute; the URL has it in UTC. */
export function FilterTime({ label, value, onChange }: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  return (
    <label className="flex w-full flex-col gap-1 text-xs font-medium text-ink-2 sm:w-52">
      {label} ({zone(value ? new Date(value) : undefined)})
      <input
        className="field h-9 py-1 text-sm font-normal text-ink"
        type="datetime-local"
        value={local(value)}
        onChange={(e) => onChange(e.target.value ? new Date(e.target.value).toISOString() : undefined)}
      />
    </label>
  );
}
