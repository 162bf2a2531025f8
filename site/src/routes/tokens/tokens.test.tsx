import { cleanup, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import type { Identity, Token } from "../../generated/api";
import { Form } from "./CreateToken";
import { effect, QuotaView } from "./QuotaView";
import { over, TokensView, users } from "./TokensView";

afterEach(cleanup);

function token(change: Partial<Token> = {}): Token {
  return { id: "1", name: "laptop", user: "ann", role: "member", hint: "pw_a", created_at: "2026-01-01T00:00:00Z", ...change };
}

const owner = { user: "owner", role: "owner" } as Identity;

test("a token is over when it is revoked, and when its time is", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  expect(over(token(), now)).toBe(false);
  expect(over(token({ expires_at: "2026-01-02T00:00:01Z" }), now)).toBe(false);
  expect(over(token({ expires_at: "2026-01-02T00:00:00Z" }), now)).toBe(true);
  expect(over(token({ revoked_at: "2026-01-01T00:00:00Z" }), now)).toBe(true);
  expect(users([token({ user: "b" }), token({ user: "a" }), token({ user: "b", id: "2" })]).map((u) => [u.name, u.tokens.length])).toEqual([
    ["a", 1],
    ["b", 2],
  ]);
});

test("a revocation says whose it is, and that of one's own session that one is signed out", async () => {
  const user = userEvent.setup();
  const revoke = vi.fn().mockResolvedValue(undefined);
  const tokens = [token(), token({ id: "2", name: "mine", user: "owner" }), token({ id: "3", name: "gone", revoked_at: "2026-01-01T00:00:00Z" })];
  render(<TokensView tokens={tokens} own="2" ended={false} onEnded={() => undefined} onRevoke={revoke} />);
  expect(screen.queryByText("gone")).toBeNull();
  expect(screen.getByLabelText("also 1 token that is over")).toBeTruthy();
  const mine = within(screen.getByRole("list", { name: "Tokens of owner" }));
  await user.click(mine.getByRole("button", { name: "Revoke" }));
  expect(screen.getByText(/you are signed out/)).toBeTruthy();
  expect(revoke).not.toHaveBeenCalled();
  await user.click(screen.getAllByRole("button", { name: "Revoke" }).at(-1)!);
  expect(revoke).toHaveBeenCalledWith("2");
  cleanup();
  render(<TokensView tokens={tokens} own="2" ended onEnded={() => undefined} />);
  expect(screen.getByText("gone")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Revoke" })).toBeNull();
});

test("a role is asked for of a new user only, and of owners only", async () => {
  const user = userEvent.setup();
  const submit = vi.fn();
  const props = { tokens: [token()], busy: false, error: undefined, onCancel: () => undefined, onSubmit: submit };
  render(<Form who={owner} {...props} />);
  expect(screen.queryByLabelText("Role of the new user")).toBeNull();
  await user.type(screen.getByLabelText("Name"), "ci");
  await user.type(screen.getByLabelText("For whom"), "ann");
  expect(screen.getByText("ann is member, and stays so.")).toBeTruthy();
  await user.type(screen.getByLabelText("For whom"), "ika");
  await user.selectOptions(screen.getByLabelText("Role of the new user"), "auditor");
  await user.click(screen.getByRole("button", { name: "Create token" }));
  expect(submit).toHaveBeenCalledWith({ name: "ci", user: "annika", role: "auditor", expires_in: "720h" });
  cleanup();
  render(<Form who={{ ...owner, role: "member" }} {...props} />);
  expect(screen.queryByLabelText("For whom")).toBeNull();
});

test("a quota says what it means before it is set", async () => {
  const user = userEvent.setup();
  const change = vi.fn().mockResolvedValue(undefined);
  expect(effect(0, 0, 5)).toContain("any number by all users together");
  expect(effect(3, 1, 5)).toContain("Now 5 workspaces are claimed.");
  render(<QuotaView quota={{ organization: "default", claimed: 4, maximum: 10, maximum_per_user: null }} onChange={change} />);
  expect(screen.getByRole("img", { name: "4 of 10 claimed" })).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Change" }));
  const all = screen.getByLabelText("By all together");
  await user.clear(all);
  await user.type(all, "20");
  expect(screen.getByText(/at most 20 at once/)).toBeTruthy();
  await user.click(screen.getAllByRole("button", { name: "Change" }).at(-1)!);
  expect(change).toHaveBeenCalledWith({ maximum: 20, maximum_per_user: 0 });
});
