import { expect, test } from "vitest";
import { bytes, crumbs, within } from "./paths";

test("a path leads through its directories", () => {
  expect(crumbs("/srv/a b")).toEqual([
    { name: "/", path: "/" },
    { name: "srv/", path: "/srv" },
    { name: "a b/", path: "/srv/a b" },
  ]);
  expect(crumbs("/")).toEqual([{ name: "/", path: "/" }]);
  expect(crumbs("")).toEqual([]);
  expect(within("/", "a")).toBe("/a");
  expect(within("/a", "b")).toBe("/a/b");
});

test("a size never has more digits than it needs", () => {
  expect([0, 999, 1_000, 9_949, 9_950, 999_499, 999_500, 3e6, 1.5e12, 2e15].map(bytes)).toEqual([
    "0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB", "3.0 MB", "1.5 TB", "2000 TB",
  ]);
});
