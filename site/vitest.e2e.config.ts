import { defineConfig } from "vitest/config";

// In Chromium, against bin/prewarm with a database of its own. Nothing is tried twice. The time limits are those of a
// machine that is busy with much else; a quiet one needs a fraction.
export default defineConfig({
  test: {
    environment: "node",
    include: ["e2e/**/*.e2e.ts"],
    // Each file has a server and a browser of its own, and mostly waits.
    fileParallelism: true,
    maxWorkers: 3,
    retry: 0,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    teardownTimeout: 60_000,
  },
});
