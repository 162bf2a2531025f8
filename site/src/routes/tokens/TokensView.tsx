import { Confirm } from "../../components/Dialog";
import { Icon } from "../../components/Icon";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { RelativeTime } from "../../components/Time";
import type { Identity, Token } from "../../generated/api";
import { useNow } from "../../services/time";

/** over says whether a token has ended: by being revoked, or by its time. */
export function over(t: Pick<Token, "revoked_at" | "expires_at">, now: number): boolean {
  return t.revoked_at !== undefined || (t.expires_at !== undefined && new Date(t.expires_at).getTime() <= now);
}

export interface User {
  name: string;
  role: string;
  tokens: Token[];
}

/** users are those that have tokens, by their names, with them. */
export function users(tokens: readonly Token[]): User[] {
  const all = new Map<string, User>();
  for (const t of tokens) {
    const user = all.get(t.user) ?? { name: t.user, role: t.role, tokens: [] };
    user.tokens.push(t);
    all.set(t.user, user);
  }
  return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

interface Props {
  tokens: readonly Token[];
  /** The one that this session was made with. */
  own: string | undefined;
  ended: boolean;
  onEnded: (shown: boolean) => void;
  onRevoke?: ((id: string) => Promise<unknown>) | undefined;
}

/** TokensView is a card for each user, with the tokens that are valid; on demand also those that are over. */
export function TokensView({ tokens, own, ended, onEnded, onRevoke }: Props) {
  const now = useNow();
  const gone = tokens.filter((t) => over(t, now)).length;
  const shown = users(ended ? tokens : tokens.filter((t) => !over(t, now)));
  return (
    <Section
      title="Users"
      beside={
        gone > 0 && (
          <label className="flex items-center gap-2">
            <input type="checkbox" checked={ended} onChange={(e) => onEnded(e.target.checked)} />
            also {gone === 1 ? "1 token that is" : `${gone} tokens that are`} over
          </label>
        )
      }
    >
      <ul className="-my-1 divide-y divide-line" aria-label="Users">
        {shown.map((u) => (
          <li key={u.name} className="grid gap-x-6 gap-y-2 py-4 md:grid-cols-[minmax(9rem,13rem)_minmax(0,1fr)]">
            <div className="flex min-w-0 items-center gap-3 self-start">
              <span className="grid size-9 shrink-0 place-items-center rounded-full bg-sunken text-ink-2">
                <Icon name="person" />
              </span>
              <div className="min-w-0">
                <p className="font-medium break-words">{u.name}</p>
                <p className="text-sm text-ink-2">{u.role}</p>
              </div>
            </div>
            <ul className="flex min-w-0 flex-col divide-y divide-line" aria-label={`Tokens of ${u.name}`}>
              {u.tokens.map((t) => (
                <Row key={t.id} token={t} own={t.id === own} over={over(t, now)} onRevoke={onRevoke} />
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Row({ token: t, own, over: isOver, onRevoke }: {
  token: Token;
  own: boolean;
  over: boolean;
  onRevoke: Props["onRevoke"];
}) {
  return (
    <li className="flex flex-wrap items-center gap-x-5 gap-y-1 py-2 first:pt-0 last:pb-0">
      <div className="min-w-0 grow">
        <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className={`break-words ${isOver ? "text-ink-2 line-through" : ""}`}>{t.name}</span>
          <code className="font-mono text-xs text-ink-2">{t.hint}…</code>
          {own && <Badge icon="key" colour="text-accent" text="this session" />}
          {t.revoked_at && <Badge icon="cross" colour="text-failed" text="revoked" />}
          {isOver && !t.revoked_at && <Badge icon="clock" colour="text-draining" text="expired" />}
        </p>
        <p className="text-sm text-ink-2">
          made <RelativeTime at={t.created_at} />,{" "}
          {t.last_used_at ? (
            <>
              last used <RelativeTime at={t.last_used_at} />
            </>
          ) : (
            "never used"
          )}
          {!isOver &&
            (t.expires_at ? (
              <>
                , ends <RelativeTime at={t.expires_at} />
              </>
            ) : (
              ", never expires"
            ))}
        </p>
      </div>
      {!isOver && onRevoke && (
        <Confirm
          act="Revoke"
          title={`Revoke ${t.name} of ${t.user}?`}
          effect={
            own
              ? "It is the one that this session was made with: you are signed out. Whatever else uses it is refused within a second, everywhere, and so are tokens that were made with it."
              : `Whatever uses it is refused within a second, on all replicas, and so are tokens that were made with it. Other tokens of ${t.user} stay valid. It cannot be taken back.`
          }
          done={`${t.name} is revoked.`}
          run={() => onRevoke(t.id)}
        />
      )}
    </li>
  );
}

const roles: readonly (readonly [Identity["role"], string])[] = [
  ["owner", "everything, also for others: users, their tokens, quotas, deletions by force"],
  ["template-admin", "applies and retires templates, pauses, rolls back; all workspaces"],
  ["member", "sees pools and templates; claims; its own workspaces and tokens"],
  ["auditor", "sees everything and the audit log, but not what is inside of workspaces; changes nothing"],
];

/** Roles says what each may do. */
export function Roles() {
  return (
    <Section title="Roles">
      <dl className="flex flex-col gap-2.5 text-sm">
        {roles.map(([role, does]) => (
          <div key={role} className="grid gap-x-4 sm:grid-cols-[8rem_minmax(0,1fr)]">
            <dt className="font-medium">{role}</dt>
            <dd className="text-ink-2">{does}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
