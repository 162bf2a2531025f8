import { defineConfig } from "vitest/config";
import e2e from "./vitest.e2e.config.ts";

// What needs a server and a browser and is no test: `make screenshots`.
export default defineConfig({ test: { ...e2e.test, include: ["e2e/**/*.script.ts"] } });
