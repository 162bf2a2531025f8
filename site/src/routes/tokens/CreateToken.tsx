import { useState } from "react";
import { Button } from "../../components/Button";
import { Copied } from "../../components/Copied";
import { Dialog } from "../../components/Dialog";
import { Notice } from "../../components/Status";
import type { CreatedToken, CreateTokenRequest, Identity, Token } from "../../generated/api";
import { useAct } from "../../services/query";

const ends: readonly (readonly [value: string, label: string])[] = [
  ["24h", "a day"],
  ["720h", "30 days"],
  ["2160h", "90 days"],
  ["8760h", "a year"],
  ["", "never expires"],
];

/** CreateToken makes a token, for oneself or as an owner for anybody, and shows its secret once. */
export function CreateToken({ who, tokens }: { who: Identity; tokens: readonly Token[] }) {
  const [open, setOpen] = useState(false);
  const [created, setCreated] = useState<CreatedToken>();
  const create = useAct("create-token");
  const close = () => {
    setOpen(false);
    setCreated(undefined); // the secret is gone with the dialog
    create.reset();
  };
  return (
    <>
      <Button look="primary" icon="key" onClick={() => setOpen(true)}>
        Create token
      </Button>
      <Dialog title={created ? `Token ${created.name} of ${created.user}` : "Create token"} open={open} onClose={close}>
        {created ? (
          <Secret token={created} onClose={close} />
        ) : (
          <Form
            who={who}
            tokens={tokens}
            busy={create.isPending}
            error={create.error?.message}
            onCancel={close}
            onSubmit={(body) => create.mutate({ body }, { onSuccess: setCreated })}
          />
        )}
      </Dialog>
    </>
  );
}

function Secret({ token, onClose }: { token: CreatedToken; onClose: () => void }) {
  return (
    <>
      <Notice tone="warning" icon="key">
        Copy the secret now. It is shown only this once; later it can only be revoked.
      </Notice>
      <Copied label="Secret" text={token.secret} />
      <Copied label="On the command line" text={`prewarm login ${location.origin}`} />
      <div className="flex justify-end">
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </>
  );
}

interface FormProps {
  who: Identity;
  tokens: readonly Token[];
  busy: boolean;
  error: string | undefined;
  onCancel: () => void;
  onSubmit: (body: CreateTokenRequest) => void;
}

/** Form is what a token is made of. Only an owner makes them for others, and new users with them. */
export function Form({ who, tokens, busy, error, onCancel, onSubmit }: FormProps) {
  const [name, setName] = useState("");
  const [user, setUser] = useState("");
  const [role, setRole] = useState<Identity["role"]>("member");
  const [end, setEnd] = useState("720h");
  const others = who.role === "owner";
  const known = tokens.find((t) => t.user === user.trim());
  const isNew = others && user.trim() !== "" && user.trim() !== who.user && !known;
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        onSubmit({
          name: name.trim(),
          ...(user.trim() && { user: user.trim() }),
          ...(isNew && { role }),
          ...(end && { expires_in: end }),
        });
      }}
    >
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        Name
        <input className="field" value={name} required maxLength={64} autoComplete="off" onChange={(e) => setName(e.target.value)} />
      </label>
      {others && (
        <label className="flex flex-col gap-1.5 text-sm font-medium">
          For whom
          <input
            className="field"
            value={user}
            maxLength={64}
            autoComplete="off"
            placeholder={`${who.user}, yourself`}
            list="users-with-tokens"
            onChange={(e) => setUser(e.target.value)}
          />
          <datalist id="users-with-tokens">
            {[...new Set(tokens.map((t) => t.user))].map((u) => (
              <option key={u} value={u} />
            ))}
          </datalist>
        </label>
      )}
      {others && user.trim() === "" && <p className="text-sm text-ink-2">{`Empty: a token with your own role, ${who.role}.`}</p>}
      {others && known && <p className="text-sm text-ink-2">{`${known.user} is ${known.role}, and stays so.`}</p>}
      {isNew && (
        <label className="flex flex-col gap-1.5 text-sm font-medium">
          Role of the new user
          <select className="field" value={role} onChange={(e) => setRole(e.target.value as Identity["role"])}>
            <option value="member">member</option>
            <option value="template-admin">template-admin</option>
            <option value="auditor">auditor</option>
            <option value="owner">owner</option>
          </select>
        </label>
      )}
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        Valid for
        <select className="field" value={end} onChange={(e) => setEnd(e.target.value)}>
          {ends.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <p className="text-sm text-ink-2">It expires with the token of this session at the latest.</p>
      {error && (
        <p role="alert" className="text-sm break-words text-failed">
          {error}
        </p>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        <Button look="quiet" onClick={onCancel}>
          Cancel
        </Button>
        <Button type="submit" look="primary" busy={busy}>
          Create token
        </Button>
      </div>
    </form>
  );
}
