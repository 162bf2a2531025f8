import { lazy, Suspense, useRef, useState } from "react";
import { Button } from "../../../components/Button";
import { Section } from "../../../components/Page";
import { Loading } from "../../../components/Status";
import { RelativeTime } from "../../../components/Time";
import { toast } from "../../../components/Toasts";
import type { Process } from "../../../generated/api";
import type { State } from "../../../services/attachment";
import { patiently } from "../../../services/connection";
import { useAct } from "../../../services/query";

const Screen = lazy(() => patiently(() => import("./Screen")).then((m) => ({ default: m.Screen })));

/** The shell of whoever runs there, or the best there is. */
const shell = 'for shell in "$SHELL" bash sh; do command -v "$shell" >/dev/null && exec "$shell"; done';

/** opened is what this tab has open in a workspace: it is there again after a reload. */
const opened = {
  key: (workspace: string) => `prewarm.terminal.${workspace}`,
  get: (workspace: string) => sessionStorage.getItem(opened.key(workspace)) ?? undefined,
  set: (workspace: string, process: string | undefined) => {
    if (process === undefined) sessionStorage.removeItem(opened.key(workspace));
    else sessionStorage.setItem(opened.key(workspace), process);
  },
};

/** TerminalSection opens a terminal in a workspace, or one that runs there already. */
export function TerminalSection({ workspace, processes }: { workspace: string; processes: readonly Process[] }) {
  const [process, setProcess] = useState(() => opened.get(workspace));
  const [chosen, setChosen] = useState(false);
  const [state, setState] = useState<State>({ is: "connecting" });
  const leave = useRef<HTMLButtonElement>(null);
  const start = useAct("start-process");
  const signal = useAct("signal-process");
  const open = (id: string | undefined) => {
    opened.set(workspace, id);
    setState({ is: "connecting" });
    setChosen(true);
    setProcess(id);
  };
  const begin = async () => {
    try {
      const body = { shell, tty: true, env: { TERM: "xterm-256color" } };
      open((await start.mutateAsync({ params: { workspace }, body })).id);
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e), true);
    }
  };
  const end = () => {
    if (process && state.is !== "ended") {
      signal.mutate({ params: { workspace, process }, body: { signal: "HUP" } }, { onError: (e) => toast(e.message, true) });
    }
    open(undefined);
  };
  const running = processes.filter((p) => p.tty && !p.ended_at);
  return (
    <Section
      title="Terminal"
      beside={
        process && (
          <span className="flex items-center gap-3">
            <span role="status">{says(state)}</span>
            <button ref={leave} type="button" className="link" onClick={end}>
              {state.is === "ended" ? "Close" : "End it"}
            </button>
          </span>
        )
      }
    >
      {process ? (
        <>
          <Suspense fallback={<Loading label="Loading the terminal" />}>
            <Screen
              key={process}
              workspace={workspace}
              process={process}
              focus={chosen}
              onState={setState}
              onLeave={() => leave.current?.focus()}
            />
          </Suspense>
          <p className="mt-2 text-sm text-ink-2">The shell goes on when you leave this page. Shift+Escape moves the keyboard out of the terminal.</p>
        </>
      ) : (
        <div className="flex flex-wrap items-center gap-3">
          <Button look="primary" icon="play" busy={start.isPending} onClick={() => void begin()}>
            Open a terminal
          </Button>
          {running.map((p) => (
            <Button key={p.id} onClick={() => open(p.id)}>
              <span>
                Resume the one from <RelativeTime at={p.started_at} />
              </span>
            </Button>
          ))}
        </div>
      )}
    </Section>
  );
}

function says(state: State): string {
  switch (state.is) {
    case "connecting":
      return "connecting";
    case "open":
      return "connected";
    case "lost":
      return "connection lost, connecting again";
    case "ended":
      return state.text;
  }
}
