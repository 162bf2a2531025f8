import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Button } from "../components/Button";
import { Notice } from "../components/Status";
import { Problem, signIn } from "../services/api";

/** inside is where to go after signing in: a path of this server, and of no other. */
export function inside(to: string | undefined): string {
  return to?.startsWith("/") && !to.startsWith("//") && !to.startsWith("/\\") && !to.startsWith("/sign-in") ? to : "/";
}

/** SignIn asks for a token, and keeps none. */
export function SignIn() {
  const { to, ended } = useSearch({ from: "/sign-in" });
  const client = useQueryClient();
  const navigate = useNavigate();
  const router = useRouter();
  const field = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  useEffect(() => {
    document.title = "Sign in · Prewarm";
    field.current?.focus();
  }, []);
  const submit = async (token: string) => {
    setBusy(true);
    setError("");
    try {
      const { role } = await signIn(token.trim());
      client.clear();
      const target = inside(to);
      if (target === "/" && role === "member") await navigate({ to: "/mine" });
      else if (target === "/") await navigate({ to: "/" });
      else router.history.push(target);
    } catch (e) {
      setError(
        e instanceof Problem && e.status === 401
          ? "This token is not valid: it is mistyped, has expired or was revoked."
          : e instanceof Error
            ? e.message
            : String(e),
      );
      field.current?.select();
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="grid min-h-dvh place-items-center px-4 py-10">
      <div className="flex w-full max-w-sm flex-col gap-6">
        <div className="flex flex-col items-center gap-3 text-center">
          <img src="/favicon.svg" alt="" className="size-12" />
          <h1 className="text-2xl font-semibold tracking-tight">Sign in to Prewarm</h1>
          <p className="text-ink-2">Pools of prebuilt workspaces, kept warm.</p>
        </div>
        {ended && !error && <Notice tone="warning">Your session is over. Sign in again to go on where you were.</Notice>}
        <form
          className="card flex flex-col gap-4 p-6"
          onSubmit={(e) => {
            e.preventDefault();
            void submit(field.current?.value ?? "");
          }}
        >
          <label className="flex flex-col gap-1.5 text-sm font-medium">
            Token
            <input
              ref={field}
              className="field font-mono"
              type="password"
              name="token"
              autoComplete="current-password"
              placeholder="pw_…"
              required
              aria-invalid={error !== ""}
              aria-describedby="hint"
            />
          </label>
          {error && (
            <p role="alert" className="text-sm text-failed">
              {error}
            </p>
          )}
          <Button type="submit" look="primary" busy={busy}>
            Sign in
          </Button>
          <div id="hint" className="text-sm text-ink-2">
            <p>
              The first start of a server writes the owner's token to the file <code>owner-token</code> in its data
              directory. With it, make a token for each member:
            </p>
            <code className="mt-2 block rounded-lg bg-sunken px-3 py-2 text-xs break-words text-ink">
              prewarm token create laptop --user alice --role member --expires-in 720h
            </code>
          </div>
        </form>
      </div>
    </main>
  );
}
