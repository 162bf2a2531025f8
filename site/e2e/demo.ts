import { join } from "node:path";
import { fillForges, go, repository, until, type Server } from "./server";

/**
 * A small company's installation, of which pictures are made: web IDEs with a schedule, runners that are being replaced by
 * a newer version, sandboxes of agents with output, one pool that was paused, and one that cannot be built.
 */
export const configuration = (root: string, runners: string) => `
providers:
  - {name: cloud, kind: sim, config: {root: ${root}/cloud}, maximum: 60}
  - {name: workstation, kind: local, config: {root: ${root}/workstation}}
templates:
  - name: web-ide
    description: Editor, toolchain and a checked out monorepo
    provider: cloud
    idle_cost_per_hour: 0.12
    spec: {create_latency: 10ms, ready_latency: 2s-9s}
    presets:
      - {name: large, parameters: {cores: "16", region: eu-1}, prebuilds: {instances: 10, ttl: 12h}}
      - name: small
        parameters: {cores: "4", region: eu-1}
        prebuilds:
          instances: 2
          schedule: {timezone: Europe/Berlin, ranges: [{cron: "* 8-18 * * 1-5", instances: 9}, {cron: "* 10-15 * * 0,6", instances: 4}]}
  - name: ci-runner
    description: One job each, thrown away afterwards
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: ${runners}}
    presets:
      - {name: linux-x64, parameters: {arch: x64}, prebuilds: {instances: 14}}
      - {name: linux-arm64, parameters: {arch: arm64}, prebuilds: {instances: 5}}
  - name: agent-sandbox
    description: A shell with the project's test suite, for coding agents
    provider: workstation
    spec:
      setup:
        - sh
        - -c
        - |
          echo "cloning example.com/shop.git (depth 1)"
          mkdir -p project
          echo "installing 214 packages"
          echo "warming the compiler's cache"
          echo "setup done"
      command:
        - sh
        - -c
        - |
          echo "sandbox is up, waiting for its agent"
          for suite in cart checkout payments search; do echo "watching tests of $suite"; done
          while :; do sleep 3600; done
      readiness: {setup: true}
    presets:
      - {name: python, parameters: {image: python}, prebuilds: {instances: 6}}
      - {name: node, parameters: {image: node}, prebuilds: {instances: 4}}
  - name: data-science
    description: Notebooks on machines with an accelerator
    provider: cloud
    idle_cost_per_hour: 1.9
    spec: {create_latency: 10ms, ready_latency: 2s-9s}
    presets:
      - {name: gpu, prebuilds: {instances: 3}}
  - name: mobile
    description: Emulators with a system image
    provider: workstation
    keep_failures: {maximum: 1}
    spec:
      setup: [sh, -c, "echo 'fetching system image android-36'; echo 'checksum does not match: want 9f3c, have 41aa' >&2; exit 3"]
      command: [sleep, infinity]
      readiness: {setup: true}
    presets:
      - {name: android, prebuilds: {instances: 3}}
`;

interface Pool {
  id: string;
  template: string;
  preset: string;
  desired: number;
  failures?: number;
  slots: { ready: number; outdated: number; failed: number };
}

/** slow is how long a runner of the new version takes to become ready: the rollout is under way while pictures are made. */
export const slow = "40s";

/** tell makes all that, and returns the name of a workspace that is in use. */
export async function tell(server: Server): Promise<string> {
  const pools = async () => ((await server.api("GET", "/api/v1/pools")) as { pools: Pool[] }).pools;
  const apply = (runners: string) =>
    server.api("POST", "/api/v1/apply", { document: configuration(server.directory, runners), file: "prewarm.yaml" });
  await apply("2s-9s");
  await until("all are ready that can be", async () => {
    const all = await pools();
    return all.length > 6 && all.every((p) => (p.template === "mobile" ? p.slots.failed > 0 : p.slots.ready >= p.desired));
  });
  // A week went by.
  const address = server.database.replace("//prewarm@/prewarm", "//postgres@/prewarm");
  await go("run", "./scripts/benchtest", "-fill", address, "-days", "8");

  const name = await claims(server);
  await server.api("POST", "/api/v1/pauses", {
    scope: "preset",
    target: "data-science/gpu",
    reason: "waiting for the new quota",
    expires_in: "26h",
  });
  await until("creates of mobile/android have stopped", async () =>
    (await pools()).some((p) => p.template === "mobile" && (p.failures ?? 0) >= 3),
  );
  await apply(slow);
  await until("the new version of the runners is on its way", async () =>
    (await pools()).some((p) => p.preset === "linux-x64" && p.slots.ready >= 2 && p.slots.outdated >= 3),
  );
  await fillForges(server, "ci-runner/linux-arm64", 5); // last, since the file says nothing of runners
  return name;
}

/** claims are made by several people and machines; the last is one of an agent, with a lease. */
async function claims(server: Server): Promise<string> {
  const wanted = [
    ["ann", "web-ide", "large"],
    ["ben", "web-ide", "small"],
    ["ann", "data-science", "gpu"],
    ["build", "ci-runner", "linux-x64"],
    ["build", "ci-runner", "linux-x64"],
    ["build", "ci-runner", "linux-arm64"],
    ["agent-7", "agent-sandbox", "node"],
    ["agent-7", "agent-sandbox", "python"],
  ] as const;
  const tokens = new Map<string, string>();
  let name = "";
  for (const [user, template, preset] of wanted) {
    if (!tokens.has(user)) {
      const made = await server.api("POST", "/api/v1/tokens", { name: `${user}'s`, user, role: "member" });
      tokens.set(user, (made as { secret: string }).secret);
    }
    const response = await fetch(`${server.url}/api/v1/claims`, {
      method: "POST",
      headers: { Authorization: `Bearer ${tokens.get(user)}`, "Content-Type": "application/json" },
      body: JSON.stringify({ template, preset, ...(user === "agent-7" && { lease: "4h" }) }),
    });
    if (!response.ok) throw new Error(`claim: ${response.status} ${await response.text()}`);
    name = ((await response.json()) as { name: string }).name;
  }
  return name;
}

/** pictures is where they go, for README.md and docs/ui.md. */
export const pictures = join(repository, "docs/images");
