import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
} from "@tanstack/react-router";
import { ErrorState } from "./components/Status";
import { Page } from "./components/Page";
import { Shell } from "./components/Shell";
import type { AuditSearch } from "./routes/audit/AuditView";
import type { ClaimSearch } from "./routes/claims/ClaimsView";
import type { JobSearch } from "./routes/jobs/JobsView";
import { NotFound } from "./routes/NotFound";
import { groups, sorts } from "./routes/pools/arrange";
import type { Filter } from "./routes/pools/PoolsView";
import { patiently } from "./services/connection";
import { preload } from "./services/pools";
import { read } from "./services/query";

const root = createRootRouteWithContext<{ client: QueryClient }>()({ component: Outlet, notFoundComponent: NotFound });

/** text is a parameter of the URL, where it is there and is text. */
const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);

/** among is a parameter of the URL, where it is one of a few. */
const among = <T extends string>(list: readonly T[], value: unknown): T | undefined => list.find((v) => v === value);

/** name is a parameter of the URL that is a name; one of digits only comes as a number. */
const name = (value: unknown) => (typeof value === "number" ? String(value) : text(value));

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: (s: Record<string, unknown>): { to?: string; ended?: boolean } => ({
    to: text(s["to"]),
    ended: s["ended"] === true || undefined,
  }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/SignIn")), "SignIn"),
});

/** inside is everything that needs somebody who is signed in. */
const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  // Who is signed in is read while the page is on its way. The shell says what went wrong, if something did.
  loader: ({ context }) => void context.client.ensureQueryData(read("whoami")).catch(() => undefined),
  component: Shell,
  errorComponent: ({ error }) => (
    <Page title="Something went wrong">
      <ErrorState error={error} retry={() => location.reload()} />
    </Page>
  ),
});

const pools = createRoute({
  getParentRoute: () => inside,
  path: "/",
  validateSearch: (s: Record<string, unknown>): Filter => ({
    q: name(s["q"]),
    show: among(["attention", "paused", "rollout"] as const, s["show"]),
    sort: among(sorts, s["sort"]),
    group: among(groups, s["group"]),
    dense: s["dense"] === true || undefined,
  }),
  // The page and the pools are read at once, not one after the other.
  loader: ({ context }) => preload(context.client),
  component: lazyRouteComponent(() => patiently(() => import("./routes/pools/Pools")), "Pools"),
});

const preset = createRoute({
  getParentRoute: () => inside,
  path: "/presets/$template/$preset",
  validateSearch: (s: Record<string, unknown>): { range?: "7d" | "14d" } => {
    const range = text(s["range"]);
    return { range: range === "7d" || range === "14d" ? range : undefined };
  },
  component: lazyRouteComponent(() => patiently(() => import("./routes/preset/Preset")), "PresetPage"),
});

const workspace = createRoute({
  getParentRoute: () => inside,
  path: "/workspaces/$workspace",
  component: lazyRouteComponent(() => patiently(() => import("./routes/workspace/Workspace")), "WorkspacePage"),
});

const port = createRoute({
  getParentRoute: () => inside,
  path: "/workspaces/$workspace/ports/$port",
  validateSearch: (s: Record<string, unknown>): { path?: string } => ({ path: text(s["path"]) }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/workspace/Port")), "PortPage"),
});

const welcome = createRoute({
  getParentRoute: () => inside,
  path: "/welcome",
  component: lazyRouteComponent(() => patiently(() => import("./routes/welcome/Welcome")), "Welcome"),
});

const states = ["waiting", "bound", "released", "missed"] as const;
const outcomes = ["hit", "waited", "cold", "miss"] as const;

/** instant is a parameter of the URL, where it is one. */
const instant = (value: unknown) => (typeof value === "string" && !Number.isNaN(Date.parse(value)) ? value : undefined);

const number = (value: unknown) => (typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined);

const mine = createRoute({
  getParentRoute: () => inside,
  path: "/mine",
  component: lazyRouteComponent(() => patiently(() => import("./routes/mine/Mine")), "Mine"),
});

const claims = createRoute({
  getParentRoute: () => inside,
  path: "/claims",
  validateSearch: (s: Record<string, unknown>): ClaimSearch => ({
    q: name(s["q"]),
    state: among(states, s["state"]),
    outcome: among(outcomes, s["outcome"]),
    template: name(s["template"]),
    preset: name(s["preset"]),
    user: name(s["user"]),
  }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/claims/Claims")), "Claims"),
});

const shows = ["in_progress", "completed", "runners", "forges"] as const;
const statuses = ["pending", "idle", "active", "offline", "gone"] as const;

const jobs = createRoute({
  getParentRoute: () => inside,
  path: "/jobs",
  validateSearch: (s: Record<string, unknown>): JobSearch => ({
    q: name(s["q"]),
    show: among(shows, s["show"]),
    forge: name(s["forge"]),
    template: name(s["template"]),
    preset: name(s["preset"]),
    status: among(statuses, s["status"]),
  }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/jobs/Jobs")), "Jobs"),
});

const templates = createRoute({
  getParentRoute: () => inside,
  path: "/templates",
  component: lazyRouteComponent(() => patiently(() => import("./routes/templates/Templates")), "Templates"),
});

const template = createRoute({
  getParentRoute: () => inside,
  path: "/templates/$template",
  validateSearch: (s: Record<string, unknown>): { from?: number; to?: number } => ({
    from: number(s["from"]),
    to: number(s["to"]),
  }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/templates/Template")), "TemplatePage"),
});

const apply = createRoute({
  getParentRoute: () => inside,
  path: "/apply",
  // The template whose file is there to change.
  validateSearch: (s: Record<string, unknown>): { template?: string } => ({ template: text(s["template"]) }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/templates/Apply")), "ApplyPage"),
});

const providers = createRoute({
  getParentRoute: () => inside,
  path: "/providers",
  component: lazyRouteComponent(() => patiently(() => import("./routes/providers/Providers")), "Providers"),
});

const provider = createRoute({
  getParentRoute: () => inside,
  path: "/providers/$provider",
  component: lazyRouteComponent(() => patiently(() => import("./routes/providers/Provider")), "ProviderPage"),
});

const replicas = createRoute({
  getParentRoute: () => inside,
  path: "/replicas",
  component: lazyRouteComponent(() => patiently(() => import("./routes/replicas/Replicas")), "Replicas"),
});

const audit = createRoute({
  getParentRoute: () => inside,
  path: "/audit",
  validateSearch: (s: Record<string, unknown>): AuditSearch => ({
    q: name(s["q"]),
    actor: name(s["actor"]),
    action: name(s["action"]),
    target: name(s["target"]),
    since: instant(s["since"]),
    until: instant(s["until"]),
    people: s["people"] === true || undefined,
  }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/audit/Audit")), "Audit"),
});

const tokens = createRoute({
  getParentRoute: () => inside,
  path: "/tokens",
  validateSearch: (s: Record<string, unknown>): { ended?: boolean } => ({ ended: s["ended"] === true || undefined }),
  component: lazyRouteComponent(() => patiently(() => import("./routes/tokens/Tokens")), "Tokens"),
});

/** elsewhere is every other path, inside the frame. */
const elsewhere = createRoute({ getParentRoute: () => inside, path: "$", component: NotFound });

const tree = root.addChildren([
  signIn,
  inside.addChildren([
    pools,
    mine,
    preset,
    workspace,
    port,
    welcome,
    claims,
    jobs,
    templates,
    template,
    apply,
    providers,
    provider,
    replicas,
    audit,
    tokens,
    elsewhere,
  ]),
]);

/** makeRouter is all pages there are. */
export function makeRouter(client: QueryClient) {
  return createRouter({ routeTree: tree, context: { client }, defaultPreload: "intent", scrollRestoration: true });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
