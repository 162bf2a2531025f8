import { defineConfig } from "vitest/config";
import e2e from "./vitest.e2e.config.ts";

// What makes pictures: `make screenshots`.
export default defineConfig({ test: { ...e2e.test, include: ["e2e/**/*.script.ts", "e2e/first-hour.e2e.ts"] } });
