import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { Icon } from "../../components/Icon";
import { ErrorState, Loading } from "../../components/Status";
import { toast } from "../../components/Toasts";
import type { ForgeEntity, ForgeHook } from "../../generated/api";
import { Problem } from "../../services/api";
import { read, useAct } from "../../services/query";
import { useMay } from "../../services/session";

/** WebhookDialog is a button that asks the forge for its webhook. */
export function WebhookDialog({ forge }: { forge: Pick<ForgeEntity, "name" | "hook_id"> }) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>Webhook…</Button>
      <Dialog title={`Webhook of ${forge.name}`} open={open} onClose={close}>
        <Webhook forge={forge.name} ours={Boolean(forge.hook_id)} onClose={close} />
      </Dialog>
    </>
  );
}

type Doing = "install" | "take" | "ping" | "remove";

/** Webhook is the webhook as the forge has it, and what can be done about it. The forge is asked only while this is open. */
export function Webhook({ forge, ours, onClose }: { forge: string; ours: boolean; onClose: () => void }) {
  const may = useMay();
  const hook = useQuery({
    ...read("get-forge-hook", { params: { forge } }),
    retry: false,
    refetchInterval: false,
    refetchOnWindowFocus: false,
    gcTime: 0,
  });
  const install = useAct("install-forge-hook");
  const ping = useAct("ping-forge-hook");
  const remove = useAct("remove-forge-hook");
  const [doing, setDoing] = useState<Doing>();
  const [error, setError] = useState("");
  const act = (what: Doing, done: string, run: () => Promise<unknown>) => async () => {
    setDoing(what);
    setError("");
    try {
      await run();
      await hook.refetch();
      toast(done);
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e));
    } finally {
      setDoing(undefined);
    }
  };
  const params = { forge };
  const none = hook.error instanceof Problem && hook.error.status === 409 && !ours;
  const found = hook.error ? undefined : hook.data;
  const theirs = found !== undefined && (!found.ours || (found.others?.length ?? 0) > 0);
  return (
    <>
      {hook.isPending && <Loading lines={2} label="Asking the forge" />}
      {hook.error && !none && <ErrorState error={hook.error} retry={() => void hook.refetch()} />}
      {none && (
        <p className="flex gap-2">
          <Icon name="alert" className="mt-1 size-4 text-draining" />
          The forge has no webhook that calls this server, so Prewarm learns of jobs only when it lists them.
        </p>
      )}
      {found && <Found hook={found} />}
      {error && (
        <p role="alert" className="text-sm break-words text-failed">
          {error}
        </p>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        <Button look="quiet" onClick={onClose}>
          Close
        </Button>
        {found?.ours && may("remove-forge-hook") && (
          <Button
            look="danger"
            icon="trash"
            busy={doing === "remove"}
            onClick={act("remove", "The webhook is removed.", () => remove.mutateAsync({ params }))}
          >
            Remove
          </Button>
        )}
        {found?.ours && may("ping-forge-hook") && (
          <Button busy={doing === "ping"} onClick={act("ping", "The forge sends a test delivery.", () => ping.mutateAsync({ params }))}>
            Send a test delivery
          </Button>
        )}
        {theirs && may("install-forge-hook") && (
          <Button
            look="primary"
            busy={doing === "take"}
            onClick={act("take", `Prewarm manages the webhook of ${forge} now.`, () =>
              install.mutateAsync({ params: { forge, take_over: true } }),
            )}
          >
            Take over
          </Button>
        )}
        {none && may("install-forge-hook") && (
          <Button
            look="primary"
            busy={doing === "install"}
            onClick={act("install", "The webhook is installed.", () => install.mutateAsync({ params }))}
          >
            Install webhook
          </Button>
        )}
      </div>
    </>
  );
}

/** Found is a webhook that is there: whose it is, and what it does. */
function Found({ hook: h }: { hook: ForgeHook }) {
  const others = h.others?.length ?? 0;
  return (
    <>
      {h.ours ? (
        <p className="flex gap-2">
          <Icon name="check" className="mt-1 size-4 text-ready" />
          Prewarm manages webhook {h.id}.
        </p>
      ) : (
        <p>
          A person made webhook {h.id}. Take it over, and Prewarm manages it: it gets the entity's secret and the event{" "}
          <code>workflow_job</code>.
          {others > 0 && ` ${others === 1 ? "1 more webhook calls" : `${others} more webhooks call`} the same URL and will be removed.`}
        </p>
      )}
      {h.ours && others > 0 && (
        <p className="flex gap-2">
          <Icon name="alert" className="mt-1 size-4 text-draining" />
          {others === 1 ? "Another webhook calls" : `${others} other webhooks call`} the same URL, so events arrive more than once.
          Take over removes {others === 1 ? "it" : "them"}.
        </p>
      )}
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-1.5 text-sm">
        <Fact name="URL">{h.url}</Fact>
        <Fact name="Events">{h.events.join(", ") || "none"}</Fact>
        <Fact name="Active">{h.active ? "yes" : "no"}</Fact>
        {h.last_status && <Fact name="Last delivery">{h.last_status}</Fact>}
      </dl>
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="contents">
      <dt className="text-ink-2">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  );
}
