import { useState } from "react";
import { Field, fileIn, Form, written } from "../../components/Form";
import type { ForgeCredential, PutForgeCredential } from "../../generated/api";

type Kind = ForgeCredential["kind"];

const fields = ["name", "kind", "url", "token", "app_id", "installation_id", "private_key", "ca_bundle"];

const secretHint = {
  github: "A classic token or a fine-grained one. Prewarm stores it encrypted and never shows it again.",
  gitea: "Of somebody who may administer the repository or organization. Prewarm stores it encrypted and never shows it again.",
};

interface Props {
  /** The one to change; left out for a new one. */
  credential?: ForgeCredential | undefined;
  /** Names that are taken: saving one of these would change it. */
  taken: readonly string[];
  onCancel: () => void;
  save: (name: string, body: PutForgeCredential) => Promise<unknown>;
}

/** CredentialForm adds a credential, or changes what is filled in of one. Its secrets are never filled in by the page. */
export function CredentialForm({ credential: old, taken, onCancel, save }: Props) {
  const [kind, setKind] = useState<Kind>(old?.kind ?? "github");
  const [auth, setAuth] = useState<ForgeCredential["auth"]>(old?.auth ?? "token");
  const app = kind === "github" && auth === "app";
  const submit = async (data: FormData) => {
    const name = old?.name ?? written(data, "name") ?? "";
    if (!old && taken.includes(name)) throw new Error(`name: there is a credential ${name} already`);
    const number = (field: string) => (written(data, field) ? Number(written(data, field)) : undefined);
    const body: Record<keyof PutForgeCredential, unknown> = {
      kind: old ? undefined : kind,
      url: written(data, "url"),
      token: written(data, "token"),
      app_id: number("app_id"),
      installation_id: number("installation_id"),
      private_key: await fileIn(data, "private_key"),
      ca_bundle: await fileIn(data, "ca_bundle"),
    };
    await save(name, Object.fromEntries(Object.entries(body).filter(([, v]) => v !== undefined)));
  };
  return (
    <Form act={old ? "Change" : "Add credential"} fields={fields} onCancel={onCancel} onSubmit={submit}>
      {(wrong) => (
        <>
          {old ? (
            <p className="text-ink-2">What is left empty stays as it is.</p>
          ) : (
            <>
              <Field name="name" label="Name" hint="Lower-case letters, digits and dashes" error={wrong("name")}>
                {(c) => <input {...c} className="field" required maxLength={64} autoComplete="off" spellCheck={false} />}
              </Field>
              <Field name="kind" label="Kind" error={wrong("kind")}>
                {(c) => (
                  <select {...c} className="field" value={kind} onChange={(e) => setKind(e.target.value as Kind)}>
                    <option value="github">GitHub</option>
                    <option value="gitea">Gitea</option>
                  </select>
                )}
              </Field>
            </>
          )}
          <Field
            name="url"
            label="URL of the API"
            hint={kind === "github" ? "Empty for github.com; https://HOST/api/v3 for GitHub Enterprise Server" : "Such as https://gitea.example.com"}
            error={wrong("url")}
          >
            {(c) => (
              <input
                {...c}
                className="field"
                type="url"
                required={kind === "gitea" && !old}
                placeholder={old?.url ?? (kind === "github" ? "https://api.github.com" : "")}
                autoComplete="off"
                spellCheck={false}
              />
            )}
          </Field>
          {kind === "github" && (
            <Field name="auth" label="Authentication">
              {(c) => (
                <select {...c} className="field" value={auth} onChange={(e) => setAuth(e.target.value as ForgeCredential["auth"])}>
                  <option value="token">Token</option>
                  <option value="app">GitHub App</option>
                </select>
              )}
            </Field>
          )}
          {app ? (
            <>
              <div className="grid gap-4 sm:grid-cols-2">
                {(["app_id", "installation_id"] as const).map((name) => (
                  <Field key={name} name={name} label={name === "app_id" ? "App ID" : "Installation ID"} error={wrong(name)}>
                    {(c) => (
                      <input
                        {...c}
                        className="field"
                        inputMode="numeric"
                        pattern="[0-9]+"
                        title="A number"
                        placeholder={String(old?.[name] ?? "")}
                        required={!old?.[name]}
                        autoComplete="off"
                      />
                    )}
                  </Field>
                ))}
              </div>
              <Field
                name="private_key"
                label="Private key"
                hint="The .pem file that GitHub made for the App. Prewarm stores it encrypted and never shows it again."
                error={wrong("private_key")}
              >
                {(c) => <input {...c} className="field" type="file" accept=".pem,.key" required={old?.auth !== "app"} />}
              </Field>
            </>
          ) : (
            <Field name="token" label="Token" hint={secretHint[kind]} error={wrong("token")}>
              {(c) => (
                <input {...c} className="field font-mono" type="password" required={!old || old.auth === "app"} autoComplete="new-password" />
              )}
            </Field>
          )}
          <Field
            name="ca_bundle"
            label="Certificate authorities"
            hint="A PEM file, where the forge's certificate is from a private authority"
            error={wrong("ca_bundle")}
          >
            {(c) => <input {...c} className="field" type="file" accept=".pem,.crt,.cer" />}
          </Field>
        </>
      )}
    </Form>
  );
}
