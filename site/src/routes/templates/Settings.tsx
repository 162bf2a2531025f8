import { Facts } from "../../components/Facts";
import { Section } from "../../components/Page";
import { RelativeTime } from "../../components/Time";
import type { Template } from "../../generated/api";

/** Settings are those of a template, which no version has. */
export function Settings({ template: t }: { template: Template }) {
  return (
    <Section title="Settings" className="max-w-2xl">
      <Facts
        facts={[
          ["Ready at the latest after", t.boot_timeout],
          ["First prebuild of a version ready within", t.progress_deadline === "0s" ? "any time" : t.progress_deadline],
          ["Surge during a rollout", t.max_surge],
          ["Unavailable during a rollout", t.max_unavailable || "none"],
          ["Outdated prebuilds", t.keep_outdated ? "stay claimable until they are replaced" : "are not claimed"],
          ["Creates in flight", t.creates_in_flight || "as the provider allows"],
          ["Failures kept", t.keep_failures > 0 ? `${t.keep_failures} of each preset, for ${t.keep_failures_ttl}` : "none"],
          ["Claims a workspace may serve", t.max_uses],
          ["Created", <RelativeTime key="at" at={t.created_at} />],
          ["Changed", <RelativeTime key="at" at={t.updated_at} />],
        ]}
      />
    </Section>
  );
}
