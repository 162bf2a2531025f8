import { useState } from "react";
import { Bar } from "../../components/Bar";
import { Confirm } from "../../components/Dialog";
import { Section } from "../../components/Page";
import type { Quota, QuotaRequest } from "../../generated/api";
import { counted } from "../../services/words";

interface Props {
  /** The generated type says number; the server answers null where there is no limit. */
  quota: Omit<Quota, "maximum" | "maximum_per_user"> & { maximum: number | null; maximum_per_user: number | null };
  onChange?: ((limits: QuotaRequest) => Promise<unknown>) | undefined;
}

/** effect is what a quota means, in a sentence. */
export function effect(maximum: number, perUser: number, claimed: number): string {
  const all = maximum > 0 ? `at most ${maximum} at once by all users together` : "any number by all users together";
  const each = perUser > 0 ? `${perUser} by each` : "any number by each";
  const above =
    maximum > 0 && claimed > maximum ? ` Now ${counted(claimed, "workspace is", "workspaces are")} claimed. They stay claimed, and nobody gets another before some are released.` : "";
  return `Workspaces are claimed from now on: ${all}, ${each}.${above}`;
}

/** QuotaView is how many workspaces may be claimed at once, and how many are. */
export function QuotaView({ quota: q, onChange }: Props) {
  const [maximum, setMaximum] = useState(q.maximum ?? 0);
  const [perUser, setPerUser] = useState(q.maximum_per_user ?? 0);
  const whole = q.maximum ?? 0;
  return (
    <Section
      title={`Quota of ${q.organization}`}
      beside={
        onChange && (
          <Confirm
            act="Change"
            title={`Change the quota of ${q.organization}?`}
            effect={effect(maximum, perUser, q.claimed)}
            done="The quota is changed."
            run={() => onChange({ maximum, maximum_per_user: perUser })}
          >
            <div className="grid gap-3 sm:grid-cols-2">
              <NumberField label="By all together" value={maximum} onChange={setMaximum} />
              <NumberField label="By each user" value={perUser} onChange={setPerUser} />
            </div>
            <p className="text-sm text-ink-2">0 is any number.</p>
          </Confirm>
        )
      }
    >
      <p className="mb-1.5">
        <b className="tabular-nums">{q.claimed}</b> {whole > 0 ? `of ${whole}` : ""} claimed, or waited for
        {whole === 0 && <span className="text-ink-2">; any number may be</span>}
      </p>
      <Bar
        parts={[{ name: "claimed", value: q.claimed, colour: whole > 0 && q.claimed >= whole ? "text-failed" : "text-claimed" }]}
        {...(whole > 0 ? { whole } : { whole: Math.max(1, q.claimed * 2) })}
        label={whole > 0 ? `${q.claimed} of ${whole} claimed` : `${q.claimed} claimed`}
      />
      <p className="mt-1.5 text-sm text-ink-2">
        By each user {q.maximum_per_user ? `at most ${q.maximum_per_user}` : "any number"}. Templates may have limits of their
        own.
      </p>
    </Section>
  );
}

function NumberField({ label, value, onChange }: { label: string; value: number; onChange: (n: number) => void }) {
  return (
    <label className="flex flex-col gap-1.5 text-sm font-medium">
      {label}
      <input
        className="field"
        type="number"
        min={0}
        max={1_000_000}
        step={1}
        required
        value={Number.isNaN(value) ? "" : value}
        onChange={(e) => onChange(e.target.valueAsNumber)}
      />
    </label>
  );
}
