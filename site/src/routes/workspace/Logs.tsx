import { useEffect, useRef, useState, type ReactNode } from "react";
import { Button } from "../../components/Button";
import { Icon } from "../../components/Icon";
import { Section } from "../../components/Page";
import { address, Problem, request } from "../../services/api";

/** So many lines at the end are kept; the download has all. */
const most = 5_000;

/** tail appends text to lines, the last of which may be unfinished, and keeps the end. */
export function tail(lines: readonly string[], text: string): string[] {
  const parts = text.split(/\r?\n/);
  const next = [...lines];
  next[Math.max(0, next.length - 1)] = (next.at(-1) ?? "") + (parts.shift() ?? "");
  next.push(...parts);
  return next.slice(-most);
}

/** Logs follows the output of a workspace. */
export function Logs({ name }: { name: string }) {
  const [lines, setLines] = useState<string[]>([""]);
  const [state, setState] = useState<"following" | "ended" | string>("following");
  const [find, setFind] = useState("");
  const [stick, setStick] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const abort = new AbortController();
    setLines([""]);
    setState("following");
    void (async () => {
      try {
        const { url } = address("get-workspace-logs", { workspace: name, follow: true });
        const response = await request(url, { signal: abort.signal });
        const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
        for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
          const { value } = part;
          setLines((known) => tail(known, value));
        }
        setState("ended");
      } catch (e) {
        if (!abort.signal.aborted) setState(e instanceof Problem ? e.message : "The connection was lost.");
      }
    })();
    return () => abort.abort();
  }, [name]);
  useEffect(() => {
    if (stick && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, stick, find]);
  const shown = find === "" ? lines : lines.filter((l) => l.toLowerCase().includes(find.toLowerCase()));
  const failed = state !== "following" && state !== "ended";
  const empty = shown.every((l) => l.trim() === "");
  return (
    <Section
      title="Output"
      beside={
        <span className="flex items-center gap-4">
          <span role="status" className="flex items-center gap-1.5">
            <Icon name={failed ? "alert" : state === "following" ? "play" : "check"} className="size-3.5" />
            {failed ? "not available" : state}
          </span>
          <a className="link inline-flex items-center gap-1.5" href={address("get-workspace-logs", { workspace: name }).url} download={`${name}.log`}>
            <Icon name="download" /> Download
          </a>
        </span>
      }
    >
      {failed && shown.every((l) => l === "") ? (
        <p className="text-ink-2">{state}</p>
      ) : (
        <>
          <div className="mb-3 flex items-center gap-3">
            <label className="relative block grow">
              <span className="sr-only">Lines that contain</span>
              <Icon name="search" className="absolute top-1/2 left-3 size-4 -translate-y-1/2 text-ink-2" />
              <input
                type="search"
                className="field pl-9"
                placeholder="Lines that contain …"
                value={find}
                onChange={(e) => setFind(e.target.value)}
              />
            </label>
            {find !== "" && (
              <span className="text-sm whitespace-nowrap text-ink-2 tabular-nums" role="status">
                {shown.length === 1 ? "1 line" : `${shown.length} lines`}
              </span>
            )}
          </div>
          <div className="relative">
            <pre
              ref={box}
              tabIndex={0}
              role="log"
              aria-label={`Output of ${name}`}
              className="max-h-96 min-h-24 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs whitespace-pre-wrap"
              onScroll={(e) => {
                const { scrollTop, scrollHeight, clientHeight } = e.currentTarget;
                setStick(scrollHeight - scrollTop - clientHeight < 24);
              }}
            >
              {empty ? (find === "" ? "No output so far." : "No such line.") : find === "" ? shown.join("\n") : marked(shown, find)}
            </pre>
            {!stick && (
              <Button className="absolute right-4 bottom-3" icon="drain" onClick={() => setStick(true)}>
                To the end
              </Button>
            )}
          </div>
        </>
      )}
    </Section>
  );
}

/** So many lines are marked where they match; more are shown plain. */
const mostMarked = 500;

/** marked has what was looked for stand out in each line. */
function marked(lines: readonly string[], find: string): ReactNode {
  if (lines.length > mostMarked) return lines.join("\n");
  return lines.map((line, i) => (
    <span key={i}>
      {parts(line, find).map((part, k) => (k % 2 === 0 ? part : <mark key={k}>{part}</mark>))}
      {"\n"}
    </span>
  ));
}

/** parts of a line: what is between matches and the matches, in turns, the letters' case aside. */
export function parts(line: string, find: string): string[] {
  const list: string[] = [];
  const low = line.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(find.toLowerCase()); at >= 0; at = low.indexOf(find.toLowerCase(), from)) {
    list.push(line.slice(from, at), line.slice(at, at + find.length));
    from = at + find.length;
  }
  return [...list, line.slice(from)];
}
