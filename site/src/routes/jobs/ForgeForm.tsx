import { useState } from "react";
import { Field, Form, written } from "../../components/Form";
import type { ForgeCredential, ForgeEntity, PutForgeEntity } from "../../generated/api";

type Scope = ForgeEntity["scope"];

const fields = ["name", "credential", "scope", "path", "balance", "webhook_secret"];

const paths: Record<Scope, string> = { repository: "owner/repository", organization: "owner", enterprise: "the enterprise's slug" };

interface Props {
  credentials: readonly ForgeCredential[];
  taken: readonly string[];
  onCancel: () => void;
  save: (name: string, body: PutForgeEntity) => Promise<unknown>;
}

/** ForgeForm adds a repository, an organization or an enterprise whose jobs are served. */
export function ForgeForm({ credentials, taken, onCancel, save }: Props) {
  const [name, setName] = useState(credentials[0]?.name ?? "");
  const [scope, setScope] = useState<Scope>("organization");
  const gitea = credentials.find((c) => c.name === name)?.kind === "gitea";
  const whole = gitea && scope === "enterprise";
  const submit = async (data: FormData) => {
    const forge = written(data, "name") ?? "";
    if (taken.includes(forge)) throw new Error(`name: there is a forge ${forge} already`);
    const path = whole ? undefined : written(data, "path");
    const secret = written(data, "webhook_secret");
    await save(forge, { credential: name, scope, ...(path && { path }), ...(secret && { webhook_secret: secret }) });
  };
  return (
    <Form act="Add forge" fields={fields} onCancel={onCancel} onSubmit={submit}>
      {(wrong) => (
        <>
          <Field name="name" label="Name" hint="Lower-case letters, digits and dashes. Runner blocks name it." error={wrong("name")}>
            {(c) => <input {...c} className="field" required maxLength={64} autoComplete="off" spellCheck={false} />}
          </Field>
          <Field name="credential" label="Credential" error={wrong("credential")}>
            {(c) => (
              <select {...c} className="field" value={name} onChange={(e) => setName(e.target.value)}>
                {credentials.map((one) => (
                  <option key={one.name} value={one.name}>
                    {one.name} ({one.kind})
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field name="scope" label="Scope" error={wrong("scope")}>
            {(c) => (
              <select {...c} className="field" value={scope} onChange={(e) => setScope(e.target.value as Scope)}>
                <option value="repository">Repository</option>
                <option value="organization">Organization</option>
                <option value="enterprise">{gitea ? "The whole Gitea" : "Enterprise"}</option>
              </select>
            )}
          </Field>
          {!whole && (
            <Field name="path" label="Path" hint={`At the forge: ${paths[scope]}`} error={wrong("path")}>
              {(c) => <input {...c} className="field" required autoComplete="off" spellCheck={false} />}
            </Field>
          )}
          <Field
            name="webhook_secret"
            label="Webhook secret"
            hint="Empty: Prewarm makes one and shows it once. A webhook that Prewarm installs needs nothing more."
            error={wrong("webhook_secret")}
          >
            {(c) => <input {...c} className="field font-mono" type="password" autoComplete="new-password" />}
          </Field>
        </>
      )}
    </Form>
  );
}
