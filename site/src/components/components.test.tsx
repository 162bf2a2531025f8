import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { Confirm } from "./Dialog";
import { Hours, percent } from "./Hours";
import { StateBadge } from "./StateBadge";
import { cells, describe as inWords, Strip, type Slots } from "./Strip";

afterEach(cleanup);

const none: Slots = { ready: 0, outdated: 0, starting: 0, empty: 0, draining: 0, failed: 0, claimed: 0 };

test("a strip says in words what it shows", () => {
  render(<Strip slots={{ ...none, ready: 3, starting: 1, claimed: 2 }} />);
  expect(screen.getByRole("img", { name: "3 ready, 1 building, 2 claimed" })).toBeTruthy();
  expect(inWords(none)).toBe("no slots");
});

test("a strip has a cell for each slot while there is room, and no kind ever vanishes", () => {
  expect(cells({ ...none, ready: 40 }, 40)).toEqual({ cells: Array(40).fill("ready"), each: 1 });
  const large = cells({ ...none, ready: 990, failed: 1, claimed: 100_000 }, 40);
  expect(large.each).toBe(2_525);
  expect(large.cells.filter((c) => c === "failed")).toHaveLength(1);
  expect(large.cells.length).toBeLessThanOrEqual(47);
});

test("each cell of a kind is drawn in its own place", () => {
  const { container } = render(<Strip slots={{ ready: 2, outdated: 2, starting: 2, empty: 2, draining: 2, failed: 2, claimed: 2 }} />);
  const paths = [...container.querySelectorAll("path")].map((p) => p.getAttribute("d") ?? "");
  expect(paths).toHaveLength(7 + 5);
  for (const path of paths) {
    // Both cells are drawn alike, and one cell further: a relative beginning would depend on where the one before ended.
    expect(path[0]).toBe("M");
    const starts = [...path.matchAll(/M([\d.]+) /g)].map((m) => Number(m[1]));
    const half = starts.length / 2;
    for (let i = 0; i < half; i++) expect((starts[half + i] ?? 0) - (starts[i] ?? 0)).toBeCloseTo(14);
  }
});

test("a share is 100 % only if nothing is missing", () => {
  expect(percent(0, 0)).toBe("–");
  expect(percent(10, 10)).toBe("100 %");
  expect(percent(99_999, 100_000)).toBe("99.9 %");
  expect(percent(1, 30)).toBe("3.3 %");
});

test("a day of claims says its sums", () => {
  render(<Hours hours={[...Array(46).fill(0), 5, 4]} />);
  expect(screen.getByRole("img", { name: "5 claims in 24 hours, 4 hits among them" })).toBeTruthy();
});

test("a state is a word beside its colour", () => {
  render(<StateBadge state="quarantined" />);
  expect(screen.getByText("quarantined")).toBeTruthy();
});

test("nothing is done before its effect was shown and confirmed, and a refusal is shown", async () => {
  const user = userEvent.setup();
  const run = vi.fn().mockRejectedValueOnce(new Error("role member may not do that")).mockResolvedValueOnce(undefined);
  render(<Confirm act="Reset" title="Reset it?" effect="Creates begin again." done="Done." reason run={run} />);
  await user.click(screen.getByRole("button", { name: "Reset" }));
  expect(run).not.toHaveBeenCalled();
  expect(screen.getByText("Creates begin again.")).toBeTruthy();
  await user.type(screen.getByLabelText("Reason, for the audit log"), "mended");
  const confirm = screen.getAllByRole("button", { name: "Reset" }).at(-1)!;
  await user.click(confirm);
  expect(run).toHaveBeenLastCalledWith("mended");
  expect((await screen.findByRole("alert")).textContent).toContain("may not");
  await user.click(confirm);
  expect(run).toHaveBeenCalledTimes(2);
});
