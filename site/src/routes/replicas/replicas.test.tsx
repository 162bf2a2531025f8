import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { PassView, ReplicasView, staleness, working } from "./ReplicasView";

afterEach(cleanup);

const pass = { sequence: 7, replica: "a", staleness_ms: 2_000, limit_ms: 60_000, stale: false };

test("how old a pass is goes on counting, and what is stale says so first", () => {
  expect(staleness(pass, 1_000, 4_000)).toBe(5_000);
  expect(staleness(pass, 4_000, 1_000)).toBe(2_000);
  render(<PassView pass={{ ...pass, full_began_at: "2026-01-01T00:00:00Z" }} readAt={Date.now()} />);
  expect(screen.queryByText(/No full pass/)).toBeNull();
  cleanup();
  render(<PassView pass={{ ...pass, full_began_at: "2026-01-01T00:00:00Z", stale: true, staleness_ms: 125_000 }} readAt={Date.now()} />);
  expect(screen.getByText("No full pass has succeeded for 2 min 5 s")).toBeTruthy();
  cleanup();
  render(<PassView pass={{ ...pass, replica: undefined as never, stale: true, staleness_ms: 0 }} readAt={Date.now()} />);
  expect(screen.getByText("No full pass has succeeded yet")).toBeTruthy();
  expect(screen.getByText("nobody yet")).toBeTruthy();
});

test("a replica says what it is at", () => {
  expect(working({})).toBe("");
  expect(working({ create: 1, delete: 3, drain: 0 })).toBe("1 create, 3 deletes");
  const replica = {
    name: "a",
    state: "stale" as const,
    version: "v1",
    address: "127.0.0.1:1",
    sites: [],
    work: {},
    last_pass: true,
    heartbeat_at: "2026-01-01T00:00:00Z",
    started_at: "2026-01-01T00:00:00Z",
  };
  render(<ReplicasView replicas={[replica]} />);
  expect(screen.getByText("did the last pass")).toBeTruthy();
  expect(screen.getByText(/a has not been heard of/)).toBeTruthy();
});
