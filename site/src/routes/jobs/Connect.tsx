import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "../../components/Button";
import { Copied } from "../../components/Copied";
import { Confirm, Dialog } from "../../components/Dialog";
import { Section } from "../../components/Page";
import { Notice } from "../../components/Status";
import { toast } from "../../components/Toasts";
import type { ForgeCredential, ForgeEntity } from "../../generated/api";
import { call } from "../../services/api";
import { read, useAct } from "../../services/query";
import { useMay } from "../../services/session";
import { CredentialForm } from "./CredentialForm";
import { ForgeForm } from "./ForgeForm";
import { Webhook } from "./Webhook";

/** Connect is how forges are added: first a credential, then what it is for. It is there for roles that may. */
export function Connect({ forges, onAdd }: { forges: readonly ForgeEntity[]; onAdd: () => void }) {
  const may = useMay();
  const credentials = useQuery({ ...read("list-forge-credentials"), enabled: may("list-forge-credentials") });
  if (!credentials.data) return null;
  const list = credentials.data;
  return (
    <Section
      title="Credentials"
      beside={
        <span className="flex flex-wrap gap-2">
          {may("put-forge-credential") && <SaveCredential taken={list.map((c) => c.name)} first={list.length === 0} />}
          {may("put-forge") && list.length > 0 && <AddForge credentials={list} taken={forges.map((f) => f.name)} onAdd={onAdd} />}
        </span>
      }
    >
      {list.length === 0 ? (
        <p className="text-ink-2">Prewarm needs a token of the forge, or a GitHub App, to register runners there.</p>
      ) : (
        <ul className="-my-1 divide-y divide-line" aria-label="Credentials">
          {list.map((c) => (
            <Row key={c.name} credential={c} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function Row({ credential: c }: { credential: ForgeCredential }) {
  const may = useMay();
  const remove = useAct("delete-forge-credential");
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 py-2.5">
      <span className="min-w-0 grow basis-60">
        <b className="font-medium break-all">{c.name}</b>
        <span className="block text-sm break-words text-ink-2">
          {c.kind}, {c.auth === "app" ? `App ${c.app_id}, installation ${c.installation_id}` : "token"}, {c.url}
          {c.ca_bundle && ", with its own authorities"}
          {`, used by ${c.entities === 1 ? "1 forge" : `${c.entities} forges`}`}
        </span>
      </span>
      <span className="flex flex-wrap gap-2">
        {may("put-forge-credential") && <SaveCredential credential={c} taken={[]} />}
        {may("delete-forge-credential") && c.entities === 0 && (
          <Confirm
            act="Delete"
            look="danger"
            icon="trash"
            title={`Delete credential ${c.name}?`}
            effect="No forge uses it. Its secret is deleted here; revoke it at the forge too."
            done={`Credential ${c.name} is deleted.`}
            run={() => remove.mutateAsync({ params: { credential: c.name } })}
          />
        )}
      </span>
    </li>
  );
}

/** SaveCredential adds one, or changes the one that is given. It does not keep what was sent: that has the secret in it. */
function SaveCredential({ credential: old, taken, first = false }: {
  credential?: ForgeCredential;
  taken: readonly string[];
  first?: boolean;
}) {
  const [open, setOpen] = useState(false);
  const listed = useQuery({ ...read("list-forge-credentials"), enabled: false });
  const close = () => setOpen(false);
  return (
    <>
      <Button look={first ? "primary" : "plain"} icon={old ? undefined : "key"} onClick={() => setOpen(true)}>
        {old ? "Change" : "Add credential"}
      </Button>
      <Dialog title={old ? `Change credential ${old.name}` : "Add a credential"} open={open} onClose={close}>
        <CredentialForm
          credential={old}
          taken={taken}
          onCancel={close}
          save={async (name, body) => {
            await call("put-forge-credential", { params: { credential: name }, body });
            await listed.refetch();
            toast(old ? `Credential ${name} is changed.` : `Credential ${name} is added.`);
            close();
          }}
        />
      </Dialog>
    </>
  );
}

/** AddForge adds one, shows the webhook's secret this once, and goes on with the webhook. */
function AddForge({ credentials, taken, onAdd }: {
  credentials: readonly ForgeCredential[];
  taken: readonly string[];
  onAdd: () => void;
}) {
  const [open, setOpen] = useState(false);
  const [added, setAdded] = useState<{ name: string; secret: string | undefined }>();
  const listed = useQuery({ ...read("list-forges"), enabled: false });
  const close = () => {
    setOpen(false);
    setAdded(undefined); // the secret is gone with the dialog
  };
  return (
    <>
      <Button
        look="primary"
        icon="plus"
        onClick={() => {
          onAdd();
          setOpen(true);
        }}
      >
        Add forge
      </Button>
      <Dialog title={added ? `${added.name} is added` : "Add a forge"} open={open} onClose={close}>
        {added ? (
          <>
            {added.secret && (
              <details className="text-sm">
                <summary className="w-fit text-ink-2">Webhook secret, to make the webhook by hand</summary>
                <div className="mt-3 flex flex-col gap-3">
                  <Notice tone="warning" icon="key">
                    Copy it now. It is shown only this once; later it can be rotated.
                  </Notice>
                  <Copied label="Webhook secret" text={added.secret} />
                </div>
              </details>
            )}
            <Webhook forge={added.name} ours={false} onClose={close} />
          </>
        ) : (
          <ForgeForm
            credentials={credentials}
            taken={taken}
            onCancel={close}
            save={async (name, body) => {
              const saved = await call("put-forge", { params: { forge: name }, body });
              setAdded({ name, secret: saved.webhook_secret });
              await listed.refetch();
            }}
          />
        )}
      </Dialog>
    </>
  );
}
