import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Components and services, each test beside what it tests. Pages in a browser: vitest.e2e.config.ts.
export default defineConfig({
  plugins: [react()],
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"], restoreMocks: true, retry: 0 },
});
