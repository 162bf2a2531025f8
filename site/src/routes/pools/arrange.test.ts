import { expect, test } from "vitest";
import { pool } from "../../services/pools.fixture";
import { arrange } from "./arrange";

const all = [
  pool({ id: "a", template: "api", provider: "cloud", claims: 10, hits: 10 }),
  pool({ id: "b", template: "api", preset: "large", provider: "local", claims: 20, hits: 5, slots: { ready: 1 } }),
  pool({ id: "c", template: "web", provider: "cloud", failures: 2, slots: { ready: 0 }, attention: { bad: true, code: "hard_limit", text: "fails" } }),
  pool({ id: "d", template: "web", preset: "large", provider: "cloud", paused: "preset: moving", paused_scope: "preset", slots: { ready: 2 }, attention: { bad: false, code: "paused", text: "paused" } }),
];

const ids = (lines: ReturnType<typeof arrange>) => lines.map((l) => l.pool?.id ?? (l.pool ? "" : `[${l.group} ${l.pools.length}]`)).join(" ");

test("pools are sorted by what one looks for, equals by name", () => {
  expect(ids(arrange(all))).toBe("a b c d");
  expect(ids(arrange(all, "attention"))).toBe("c d a b");
  expect(ids(arrange(all, "ready"))).toBe("c b d a");
  expect(ids(arrange(all, "claims"))).toBe("b a c d");
  expect(ids(arrange(all, "hits"))).toBe("b a c d");
});

test("groups are in order of their names, those of a status the worst first", () => {
  expect(ids(arrange(all, "name", "template"))).toBe("[api 2] a b [web 2] c d");
  expect(ids(arrange(all, "name", "provider"))).toBe("[cloud 3] a c d [local 1] b");
  expect(ids(arrange(all, "claims", "status"))).toBe("[Creates fail 1] c [Paused 1] d [Filling 1] b [Warm 1] a");
});

test("a thousand pools are arranged in no time that one notices", () => {
  const many = Array.from({ length: 1_000 }, (_, i) => pool({ id: String(i), template: `t${i % 50}`, claims: i }));
  const lines = arrange(many, "claims", "template");
  expect(lines).toHaveLength(1_050);
  expect(lines[1]?.pool?.id).toBe("950");
});
