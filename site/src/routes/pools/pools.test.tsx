import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { PauseBannerView } from "../../components/PauseBanner";
import { pool } from "../../services/pools.fixture";
import { PauseForm, targets } from "./Pauses";

afterEach(cleanup);

test("a pause of any scope names its target, and has a reason", async () => {
  const user = userEvent.setup();
  const run = vi.fn().mockResolvedValue(undefined);
  const pools = [pool(), pool({ id: "2", template: "ci", provider: "cloud" })];
  expect(targets("provider", pools)).toEqual(["cloud", "local"]);
  expect(targets("preset", pools)).toEqual(["ci/small", "web/small"]);
  render(<PauseForm pools={pools} run={run} />);
  await user.click(screen.getByRole("button", { name: "Pause…" }));
  await user.selectOptions(screen.getByLabelText("What to pause"), "template");
  await user.selectOptions(screen.getByLabelText("Which template"), "web");
  await user.type(screen.getByLabelText("Reason, for the audit log"), "moving");
  await user.click(screen.getByRole("button", { name: "Pause" }));
  expect(run).toHaveBeenCalledWith({ scope: "template", target: "web", reason: "moving", expires_in: "2h" });
});

test("a global pause is one banner with who, why and Resume", () => {
  render(
    <PauseBannerView
      pause={{ scope: "global", reason: "moving", created_by: "ann", created_at: "2026-01-01T00:00:00Z" }}
      action={<button>Resume</button>}
    />,
  );
  const banner = screen.getByRole("region", { name: "Global pause" });
  expect(banner.textContent).toContain("All pools are paused by ann: moving.");
  expect(screen.getByRole("button", { name: "Resume" })).toBeTruthy();
});
