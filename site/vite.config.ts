import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import { licences } from "./licences.ts";

const dist = join(import.meta.dirname, "dist");

/** compress writes each file twice more, as site.go serves it: the server has nothing left to compress. */
function compress(): Plugin {
  return {
    name: "compress",
    apply: "build",
    closeBundle() {
      for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(js|css|html|svg|txt)$/.test(entry.name)) continue;
        const name = join(entry.parentPath, entry.name);
        const content = readFileSync(name);
        writeFileSync(`${name}.gz`, gzipSync(content, { level: 9 }));
        writeFileSync(
          `${name}.br`,
          brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
        );
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), tailwindcss(), licences(import.meta.dirname), compress()],
  build: {
    target: "es2023",
    // Everything is a file of its own: the content security policy runs nothing that is written into a page.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  // `npm run dev` beside a running `prewarm server`.
  server: {
    proxy: {
      "/api": { target: process.env["PREWARM_URL"] ?? "http://127.0.0.1:7080", ws: true },
    },
  },
});
