import { expect, test } from "vitest";
import type { ForgeJob, Template, Workspace } from "../generated/api";
import { pool } from "./pools.fixture";
import { find } from "./search";

const pools = [pool({ template: "web-ide", preset: "large" }), pool({ id: "2", template: "ci", preset: "web", provider: "cloud" })];
const templates = [{ name: "web-ide", description: "The front end" }] as Template[];
const workspaces = [{ name: "prebuild-abcdefghij234567", owner: "ada" }] as Workspace[];
const jobs = [{ job_id: 7, name: "tests", repository: "acme/web", labels: ["linux"], state: "in_progress" }] as ForgeJob[];
const names = (text: string) => find(text, pools, templates, workspaces, jobs).map((f) => `${f.kind} ${f.name}`);

test("every word is somewhere in what is found, and what begins with the text comes first", () => {
  expect(names("web")).toEqual(["pool web-ide/large", "template web-ide", "pool ci/web", "job acme/web: tests"]);
  expect(names("WEB large")).toEqual(["pool web-ide/large"]);
  expect(names("front")).toEqual(["template web-ide"]);
  expect(names("ada")).toEqual(["workspace prebuild-abcdefghij234567"]);
  expect(names("linux 7")).toEqual(["job acme/web: tests"]);
  expect(names("  ")).toEqual([]);
  expect(names("nothing")).toEqual([]);
});

test("a whole name of a workspace leads there, also where it is not in the list", () => {
  expect(names("prebuild-zzzzzzzzzz222222")).toEqual(["workspace prebuild-zzzzzzzzzz222222"]);
});

test("a thousand pools give a dozen", () => {
  const many = Array.from({ length: 1_000 }, (_, i) => pool({ id: String(i), preset: `p${i}` }));
  expect(find("web", many)).toHaveLength(12);
});
