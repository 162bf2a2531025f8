import { Link, useParams, useSearch } from "@tanstack/react-router";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Page } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { ErrorState, Loading } from "../../components/Status";
import type { Preset, PresetSize } from "../../generated/api";
import { read, useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { statusOfPreset } from "../../services/status";
import { Actions, Nudge, Reset } from "./Actions";
import { Causes } from "./Causes";
import { History, hoursOf } from "./History";
import { PresetView } from "./PresetView";
import { Resize } from "./Resize";
import { Runners } from "./Runners";
import { SizeCard } from "./Size";

/** PresetPage says why one pool is as it is, and what can be done about it. */
export function PresetPage() {
  const params = useParams({ from: "/inside/presets/$template/$preset" });
  const { range } = useSearch({ from: "/inside/presets/$template/$preset" });
  const may = useMay();
  const preset = useRead("get-preset", { params });
  const explanation = useRead("explain-preset", { params });
  const workspaces = useRead("list-workspaces", { params: { ...params, limit: 500 } });
  const failures = useRead("list-preset-failures", { params });
  const schedule = useRead("get-preset-schedule", { params });
  // By the claims of many days: it changes slowly, and is not for nothing.
  const size = useQuery({ ...read("size-preset", { params }), staleTime: 300_000, refetchInterval: 300_000 });
  const durations = useRead("get-preset-durations", { params });
  // Another range keeps the charts of the one before until it is there.
  const history = useQuery({
    ...read("get-preset-history", { params: { ...params, hours: hoursOf(range) } }),
    placeholderData: keepPreviousData,
  });
  const streak = failures.data?.streak ?? 0;
  const status = preset.data && statusOfPreset(preset.data, streak);
  return (
    <Page
      title={`${params.template}/${params.preset}`}
      above={
        <Link to="/" className="link">
          Pools
        </Link>
      }
      lead={
        <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
          {status && <Badge {...status} />}
          {status && preset.data?.rollout?.phase !== "progressing" && <span>{explanation.data?.headline}</span>}
        </span>
      }
      actions={preset.data && <Actions preset={preset.data} failures={streak} />}
    >
      {preset.error && <ErrorState error={preset.error} retry={() => void preset.refetch()} />}
      {preset.isPending && <Loading lines={6} />}
      {preset.data && (
        <PresetView
          preset={preset.data}
          explanation={explanation.data}
          workspaces={may("list-workspaces") ? workspaces.data : undefined}
          durations={durations.data}
          schedule={preset.data.scheduled ? schedule.data : undefined}
          history={history.data && <History history={history.data} now={preset.data} range={range} params={params} />}
          failures={
            failures.data &&
            failures.data.causes.length > 0 && (
              <Causes
                failures={failures.data}
                action={
                  <>
                    {may("apply") && streak > 0 && (
                      <Link to="/apply" search={{ template: params.template }} className="link">
                        Mend the template
                      </Link>
                    )}
                    {may("rollback-template") && streak > 0 && preset.data.version > 1 && (
                      <Link to="/templates/$template" params={{ template: params.template }} className="link">
                        Roll back to another version
                      </Link>
                    )}
                    {may("reset-preset") && <Reset {...params} />}
                  </>
                }
              />
            )
          }
          size={
            size.data &&
            preset.data.pool && (
              <SizeCard
                size={size.data}
                params={params}
                resize={
                  may("apply") && may("create-plan")
                    ? (instances) => (
                        <Resize {...params} instances={instances} current={size.data.instances} hint={hintOf(preset.data, size.data)} />
                      )
                    : undefined
                }
              />
            )
          }
          runners={
            preset.data.runner && may("list-runners") && <Runners preset={preset.data} settings={preset.data.runner} />
          }
          nudge={may("nudge-preset") && <Nudge {...params} />}
        />
      )}
    </Page>
  );
}

/** hintOf is why a number of instances is not all that decides how many are desired. */
export function hintOf(preset: Preset, size: PresetSize): string | undefined {
  if (size.autosize?.mode === "apply") {
    return `Autosize chooses between ${size.autosize.min} and ${size.autosize.max}; the number counts only while it does not.`;
  }
  if (preset.scheduled) return "It counts outside of the schedule's ranges.";
  return undefined;
}
