import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useState, useSyncExternalStore } from "react";
import type { Operations } from "../generated/api";
import { call } from "../services/api";
import { useRead } from "../services/query";
import { may } from "../services/session";
import { stream } from "../services/stream";
import { useTheme, type Theme } from "../services/theme";
import { Icon, type IconName } from "./Icon";
import { LostBanner, useLost } from "./LostBanner";
import { Palette } from "./Palette";
import { PauseBanner } from "./PauseBanner";
import { ErrorState } from "./Status";
import { Toasts } from "./Toasts";

/** The pages that lead everywhere. One shows where the role may read what is on it. */
const places = [
  { to: "/mine", name: "My workspaces", icon: "play", reads: "create-claim" },
  { to: "/", name: "Pools", icon: "pools", reads: "list-pools" },
  { to: "/claims", name: "Claims", icon: "person", reads: "list-workspaces" },
  { to: "/jobs", name: "Jobs", icon: "job", reads: "list-forge-jobs" },
  { to: "/templates", name: "Templates", icon: "template", reads: "list-templates" },
  { to: "/providers", name: "Providers", icon: "stack", reads: "list-providers" },
  { to: "/replicas", name: "Replicas", icon: "server", reads: "list-replicas" },
  { to: "/audit", name: "Audit", icon: "list", reads: "list-audit" },
  { to: "/tokens", name: "Users & tokens", icon: "key", reads: "list-tokens" },
] as const satisfies readonly { to: string; name: string; icon: IconName; reads: keyof Operations }[];

/** Shell is what is around every page: where one is, who one is, and whether what is shown is live. */
export function Shell() {
  const who = useRead("whoami");
  const [open, setOpen] = useState(false);
  const path = useRouterState({ select: (s) => s.location.pathname });
  const lost = useLost();
  const signedIn = who.data !== undefined;
  useEffect(() => {
    if (signedIn) stream.start();
  }, [signedIn]);
  useEffect(() => setOpen(false), [path]);
  if (!who.data) {
    return (
      <>
        <LostBanner />
        <main className="p-6">{who.error && <ErrorState error={who.error} retry={() => void who.refetch()} />}</main>
      </>
    );
  }
  const role = who.data.role;
  return (
    <div className="flex min-h-dvh flex-col lg:grid lg:grid-cols-[15rem_minmax(0,1fr)] lg:grid-rows-[auto_1fr]">
      <a
        href="#main"
        className="sr-only z-40 rounded-lg bg-surface px-4 py-2 focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to the page
      </a>
      <div className="contents lg:sticky lg:top-0 lg:z-30 lg:col-span-2 lg:block">
        <LostBanner />
      </div>
      <header className="sticky top-(--banner,0px) z-20 flex flex-col border-b border-line bg-surface lg:h-[calc(100dvh-var(--banner,0px))] lg:border-r lg:border-b-0">
        <div className="flex items-center gap-3 px-4 py-3 lg:px-5 lg:py-5">
          <Link to="/" className="flex items-center gap-2.5 text-lg font-semibold tracking-tight">
            <img src="/favicon.svg" alt="" className="size-7" />
            Prewarm
          </Link>
          <span className="grow" />
          <button
            type="button"
            className="rounded-lg p-2 hover:bg-sunken lg:hidden"
            aria-expanded={open}
            aria-controls="places"
            aria-label="Menu"
            onClick={() => setOpen(!open)}
          >
            <Icon name={open ? "cross" : "menu"} className="size-5" />
          </button>
        </div>
        <div id="places" className={`${open ? "flex" : "hidden"} grow flex-col gap-4 overflow-y-auto px-3 pb-4 lg:flex`}>
          <Palette />
          <nav aria-label="Pages">
            <ul className="flex flex-col gap-0.5">
              {places
                .filter((p) => may(role, p.reads))
                .map((p) => (
                  <li key={p.to}>
                    <Link
                      to={p.to}
                      activeOptions={{ exact: p.to === "/" }}
                      activeProps={{ className: "bg-sunken font-semibold text-ink", "aria-current": "page" }}
                      inactiveProps={{ className: "text-ink-2 hover:bg-sunken hover:text-ink" }}
                      className="flex items-center gap-3 rounded-lg px-3 py-2"
                    >
                      <Icon name={p.icon} />
                      {p.name}
                    </Link>
                  </li>
                ))}
            </ul>
          </nav>
          <span className="grow" />
          <Live />
          <ThemeChoice />
          <SignedIn user={who.data.user} role={role} />
          <a href="/licences.txt" className="mx-3 w-fit text-xs text-ink-2 hover:underline">
            Licences
          </a>
        </div>
      </header>
      <div className="min-w-0">
        <PauseBanner />
        <main id="main" tabIndex={-1} className={`outline-none ${lost ? "opacity-85 grayscale" : ""}`}>
          <Outlet />
        </main>
      </div>
      <Toasts />
    </div>
  );
}

/** Live says whether changes are heard of as they happen. */
function Live() {
  const up = useSyncExternalStore(stream.watch, stream.up);
  const lost = useLost();
  return (
    <p className="flex items-center gap-2.5 px-3 text-xs text-ink-2" role="status">
      <Icon name={up ? "check" : "refresh"} className={`size-4 ${up ? "text-ready" : "text-draining"}`} />
      {up ? "Live" : lost ? "Not connected" : "Connecting; read every few seconds"}
    </p>
  );
}

const themes: readonly { theme: Theme; name: string; icon: IconName }[] = [
  { theme: "light", name: "Light", icon: "sun" },
  { theme: "system", name: "Same as the system", icon: "system" },
  { theme: "dark", name: "Dark", icon: "moon" },
];

function ThemeChoice() {
  const [theme, choose] = useTheme();
  return (
    <div role="group" aria-label="Theme" className="mx-3 flex w-fit rounded-lg border border-line p-0.5">
      {themes.map((t) => (
        <button
          key={t.theme}
          type="button"
          aria-pressed={theme === t.theme}
          aria-label={t.name}
          title={t.name}
          className={`rounded-md px-2.5 py-1.5 ${theme === t.theme ? "bg-sunken text-ink" : "text-ink-2 hover:text-ink"}`}
          onClick={() => choose(t.theme)}
        >
          <Icon name={t.icon} />
        </button>
      ))}
    </div>
  );
}

function SignedIn({ user, role }: { user: string; role: string }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const signOut = async () => {
    await call("delete-session").catch(() => undefined); // a session that is over already is what was wanted
    stream.stop();
    await navigate({ to: "/sign-in" });
    client.clear();
  };
  return (
    <div className="flex items-center gap-2 border-t border-line px-3 pt-4">
      <div className="min-w-0 grow">
        <p className="truncate text-sm font-medium">{user}</p>
        <p className="text-xs text-ink-2">{role}</p>
      </div>
      <button type="button" className="rounded-lg px-2.5 py-1.5 text-sm hover:bg-sunken" onClick={() => void signOut()}>
        Sign out
      </button>
    </div>
  );
}
