import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Confirm } from "../../components/Dialog";
import { Page } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { ErrorState, Loading, Notice } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import type { Template, TemplateRollout } from "../../generated/api";
import { usePages } from "../../services/pages";
import { useAct, useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { Rolling } from "./TemplatesView";
import { RollBack, unclaimed } from "./RollBack";
import { phaseOf, RolloutView } from "./RolloutView";
import { Settings } from "./Settings";
import { Versions } from "./Versions";

/** TemplatePage is one kind of workspace: its versions, and how far the active one has come. */
export function TemplatePage() {
  const { template } = useParams({ from: "/inside/templates/$template" });
  const search = useSearch({ from: "/inside/templates/$template" });
  const navigate = useNavigate({ from: "/templates/$template" });
  const read = useRead("get-template", { params: { template, versions: false } });
  const rollout = useRead("get-template-rollout", { params: { template } });
  const versions = usePages("list-template-versions", { template });
  const t = read.data;
  const known = versions.data?.pages.flatMap((p) => p.versions) ?? [];
  return (
    <Page
      title={template}
      above={
        <Link to="/templates" activeOptions={{ exact: true }} className="link">
          Templates
        </Link>
      }
      lead={
        t && (
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <span>
              version {t.active_version}, on {t.provider}
            </span>
            <Rolling phase={rollout.data && phaseOf(rollout.data.presets)} />
            {t.deprecated_at && <Badge icon="alert" colour="text-draining" text="deprecated" />}
            {t.description && <span>{t.description}</span>}
          </span>
        )
      }
      actions={t && <Actions template={t} rollout={rollout.data} />}
    >
      {read.error && <ErrorState error={read.error} retry={() => void read.refetch()} />}
      {read.isPending && <Loading lines={6} />}
      {t?.deprecated_at && (
        <Notice tone="warning">
          Deprecated <RelativeTime at={t.deprecated_at} />: its pools run empty, and no more can be claimed. What
          is claimed stays until it is released.
        </Notice>
      )}
      {t && rollout.error && <ErrorState error={rollout.error} retry={() => void rollout.refetch()} />}
      {t && rollout.data && <RolloutView rollout={rollout.data} />}
      {t && versions.error && <ErrorState error={versions.error} retry={() => void versions.refetch()} />}
      {t && known.length > 0 && (
        <Versions
          template={template}
          versions={known}
          pages={versions}
          compared={search}
          onCompare={(from, to) => void navigate({ search: { from, to }, replace: true, resetScroll: false })}
        />
      )}
      {t && <Settings template={t} />}
    </Page>
  );
}

function Actions({ template: t, rollout }: { template: Template; rollout: TemplateRollout | undefined }) {
  const may = useMay();
  const navigate = useNavigate();
  const deprecate = useAct("deprecate-template");
  const undeprecate = useAct("undeprecate-template");
  const remove = useAct("delete-template");
  const params = { template: t.name };
  const n = unclaimed(rollout);
  const theirs = n === 1 ? "Its unclaimed prebuild goes" : `Its ${n} unclaimed prebuilds go`;
  return (
    <>
      {rollout?.back !== undefined && may("rollback-template") && (
        <RollBack template={t.name} from={rollout.version} to={rollout.back} rollout={rollout} />
      )}
      {!t.deprecated_at && may("deprecate-template") && (
        <Confirm
          act="Deprecate"
          icon="pause"
          title={`Deprecate ${t.name}?`}
          effect={`${n > 0 ? `${theirs}` : "Nothing is built any more"}, and no more can be claimed. What is claimed stays until it is released. It can be taken back.`}
          done={`${t.name} is deprecated.`}
          run={() => deprecate.mutateAsync({ params })}
        />
      )}
      {t.deprecated_at && may("undeprecate-template") && (
        <Confirm
          act="Take back"
          look="primary"
          icon="play"
          title={`Let the pools of ${t.name} fill again?`}
          effect="The next pass builds what its presets should have, and it can be claimed again."
          done={`The pools of ${t.name} fill again.`}
          run={() => undeprecate.mutateAsync({ params })}
        />
      )}
      {may("delete-template") && (
        <Confirm
          act="Delete"
          look="danger"
          icon="trash"
          title={`Delete ${t.name} for good?`}
          effect={`Its ${t.presets.length === 1 ? "preset goes" : `${t.presets.length} presets go`}, with all versions. ${n > 0 ? `${theirs}, too. ` : ""}What is claimed stays until it is released. The same file can be applied again.`}
          done={`${t.name} is deleted.`}
          run={async () => {
            await remove.mutateAsync({ params });
            await navigate({ to: "/templates" });
          }}
        />
      )}
    </>
  );
}
