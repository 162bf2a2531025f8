import { fileURLToPath } from "node:url";

// The site of docs/: `make docs` builds it into build/docs, with a search that needs no server.

const repository = "https://github.com/prewarm-dev/prewarm/blob/main/";

// anchorOf is what GitHub makes of a heading, as scripts/rules checks the links: the pages are read there too.
const anchorOf = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, "")
    .replaceAll(" ", "-");

const links = (pages) => pages.map(([text, link]) => ({ text, link }));

export default {
  title: "Prewarm",
  description: "Dev environments, CI runners and agent sandboxes that are ready before anybody asks",
  srcDir: "../../docs",
  srcExclude: ["archive/**"],
  rewrites: { "README.md": "index.md", "decisions/README.md": "decisions/index.md" },
  cleanUrls: false,
  // Dead links fail the build; those that leave docs/ lead to the repository.
  ignoreDeadLinks: [/^(\.\/)?archive\//],
  // The pages lie outside of this folder, where its packages are not found.
  vite: { resolve: { alias: [{ find: /^vue(?=$|\/)/, replacement: fileURLToPath(new URL("../node_modules/vue", import.meta.url)) }] } },
  markdown: {
    anchor: { slugify: anchorOf },
    config: (md) => {
      md.core.ruler.push("repository", ({ tokens, env }) => {
        const folder = (env.relativePath ?? "").split("/").slice(0, -1);
        for (const token of tokens.flatMap((t) => t.children ?? [])) {
          const href = token.type === "link_open" ? token.attrGet("href") : null;
          if (!href?.startsWith("..")) continue;
          const path = [...folder];
          let up = 0;
          for (const part of href.split("/")) {
            if (part !== "..") path.push(part);
            else if (path.length > 0) path.pop();
            else up++;
          }
          if (up > 0) token.attrSet("href", repository + path.join("/"));
        }
      });
    },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    sidebar: [
      { text: "Set up", items: links([["Your first hour", "/first-hour"], ["Install", "/install"], ["TLS and replicas", "/tls"], ["Deployment", "/deployment"], ["Teams", "/teams"], ["Single sign-on", "/sso"], ["Kubernetes", "/kubernetes"]]) },
      { text: "Pools", items: links([["Configuration", "/configuration"], ["Pools over time", "/pools"], ["Sizes", "/SIZING"], ["Forges", "/forges"], ["The agent", "/agent"], ["What apply refuses", "/refusals"]]) },
      { text: "Providers", items: links([["local", "/providers/local"], ["docker", "/providers/docker"], ["hosts", "/providers/hosts"], ["external", "/providers/external"], ["sim", "/providers/sim"]]) },
      { text: "Use", items: links([["Claims", "/claims"], ["Web UI", "/ui"], ["Command line", "/cli"], ["API", "/api"]]) },
      { text: "Operate", items: links([["Operations", "/operations"], ["Observability", "/observability"], ["Inventories", "/inventory"], ["Troubleshooting", "/troubleshooting"], ["Upgrade", "/upgrade"], ["Disaster", "/disaster"]]) },
      { text: "Background", items: links([["Glossary", "/glossary"], ["Security", "/SECURITY"], ["Reliability", "/RELIABILITY"], ["Performance", "/PERFORMANCE"], ["Architecture", "/ARCHITECTURE"], ["States", "/STATE_MACHINE"], ["Decisions", "/decisions/"]]) },
    ],
  },
};
