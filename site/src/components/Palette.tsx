import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useId, useMemo, useState } from "react";
import { createPortal } from "react-dom";
import { usePools } from "../services/pools";
import { read } from "../services/query";
import { find, type Found } from "../services/search";
import { useMay } from "../services/session";
import { Dialog } from "./Dialog";
import { Icon, type IconName } from "./Icon";

/** Palette is the search over everything, which Ctrl-K opens from any page. */
export function Palette() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const pressed = (e: KeyboardEvent) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey) return;
      if (document.querySelector("dialog[open]")) return; // it would be below that
      e.preventDefault();
      setOpen(true);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <>
      <button
        type="button"
        className="mx-3 flex items-center gap-2.5 rounded-lg border border-line px-3 py-1.5 text-sm text-ink-2 hover:bg-sunken hover:text-ink"
        onClick={() => setOpen(true)}
      >
        <Icon name="search" />
        <span className="grow text-left">Search</span>
        <kbd className="font-mono text-2xs" aria-hidden="true">
          Ctrl K
        </kbd>
      </button>
      {/* Not inside the menu, which is hidden on a narrow screen and would hide it too. */}
      {createPortal(
        <Dialog title="Search" open={open} onClose={() => setOpen(false)}>
          <Search onDone={() => setOpen(false)} />
        </Dialog>,
        document.body,
      )}
    </>
  );
}

const icons: Record<Found["kind"], IconName> = { pool: "pools", template: "template", workspace: "server", job: "job" };

/** Search reads what can be found while it is open, and not otherwise. */
function Search({ onDone }: { onDone: () => void }) {
  const may = useMay();
  const navigate = useNavigate();
  const pools = usePools();
  const once = { staleTime: 10_000, refetchInterval: false } as const;
  const templates = useQuery({ ...read("list-templates"), ...once, enabled: may("list-templates") });
  const workspaces = useQuery({ ...read("list-workspaces", { params: { limit: 500 } }), ...once, enabled: may("list-workspaces") });
  const jobs = useQuery({ ...read("list-forge-jobs", { params: { limit: 100 } }), ...once, enabled: may("list-forge-jobs") });
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const found = useMemo(
    () => find(text, pools.data, templates.data, workspaces.data?.workspaces, jobs.data?.jobs),
    [text, pools.data, templates.data, workspaces.data, jobs.data],
  );
  const active = Math.min(at, found.length - 1);
  const go = async (f: Found) => {
    onDone();
    await navigate(f.to);
  };
  return (
    <>
      <input
        className="field"
        role="combobox"
        aria-label="Search pools, workspaces, templates and jobs"
        aria-expanded={found.length > 0}
        aria-controls={`${id}-list`}
        aria-activedescendant={found[active] ? `${id}-${active}` : undefined}
        aria-autocomplete="list"
        placeholder="Pools, workspaces, templates, jobs"
        autoComplete="off"
        spellCheck={false}
        autoFocus
        value={text}
        onChange={(e) => {
          setText(e.target.value);
          setAt(0);
        }}
        onKeyDown={(e) => {
          const chosen = found[active];
          if (e.key === "ArrowDown") setAt(Math.min(active + 1, found.length - 1));
          else if (e.key === "ArrowUp") setAt(Math.max(active - 1, 0));
          else if (e.key === "Enter" && chosen) void go(chosen);
          else return;
          e.preventDefault();
        }}
      />
      <ul id={`${id}-list`} role="listbox" aria-label="Found" className="-mx-2 flex max-h-96 flex-col overflow-y-auto">
        {found.map((f, i) => (
          <li
            key={`${f.kind} ${f.name} ${i}`}
            id={`${id}-${i}`}
            role="option"
            aria-selected={i === active}
            className={`flex cursor-pointer items-center gap-3 rounded-lg px-3 py-1.5 ${i === active ? "bg-sunken" : "hover:bg-sunken/50"}`}
            onClick={() => void go(f)}
          >
            <Icon name={icons[f.kind]} />
            <span className="min-w-0 grow truncate">{f.name}</span>
            <span className="shrink-0 text-xs text-ink-2">{f.kind}</span>
          </li>
        ))}
      </ul>
      <p role="status" className={found.length > 0 || text === "" ? "sr-only" : "text-ink-2"}>
        {text === "" ? "" : found.length === 0 ? "Nothing found." : `${found.length} found`}
      </p>
    </>
  );
}
