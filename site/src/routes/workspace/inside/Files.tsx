import { useRef, useState } from "react";
import { Button } from "../../../components/Button";
import { Confirm, Dialog } from "../../../components/Dialog";
import { Icon } from "../../../components/Icon";
import { More } from "../../../components/More";
import { Section } from "../../../components/Page";
import { ErrorState, Loading } from "../../../components/Status";
import { RelativeTime } from "../../../components/Time";
import { toast } from "../../../components/Toasts";
import type { File as Entry } from "../../../generated/api";
import { address, request } from "../../../services/api";
import { usePages } from "../../../services/pages";
import { useAct } from "../../../services/query";
import { counted } from "../../../services/words";
import { bytes, crumbs, within } from "./paths";

/** Files shows a directory of a workspace, and takes files out of it and into it. */
export function Files({ workspace }: { workspace: string }) {
  const [path, setPath] = useState("");
  const list = usePages("list-files", { workspace, path });
  const at = list.data?.pages.at(-1)?.path ?? path;
  const files = list.data?.pages.flatMap((p) => p.files) ?? [];
  const make = useAct("make-directory");
  const remove = useAct("remove-file");
  const [name, setName] = useState("");
  return (
    <Section
      title="Files"
      beside={
        at && (
          <a className="link inline-flex items-center gap-1.5" href={address("read-files", { workspace, path: at }).url} download>
            <Icon name="download" /> Download all as tar
          </a>
        )
      }
    >
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <nav aria-label="Directory" className="flex min-w-0 grow flex-wrap items-center gap-1 font-mono text-sm break-all">
          {crumbs(at).map(({ name: part, path: to }) => (
            <button key={to} type="button" className="link" aria-current={to === at ? "page" : undefined} onClick={() => setPath(to)}>
              {part}
            </button>
          ))}
        </nav>
        <Upload workspace={workspace} directory={at} known={files} onDone={() => void list.refetch()} />
        <Confirm
          act="New directory"
          submit="Create"
          icon="plus"
          title="New directory"
          effect={`It is created in ${at}.`}
          done={`${name} is created.`}
          run={async () => {
            await make.mutateAsync({ params: { workspace }, body: { path: within(at, name) } });
            setName("");
          }}
        >
          <label className="flex flex-col gap-1.5 text-sm font-medium">
            Name
            <input className="field" value={name} required maxLength={255} onChange={(e) => setName(e.target.value)} />
          </label>
        </Confirm>
      </div>
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={3} />}
      {list.data && files.length === 0 && <p className="text-ink-2">This directory is empty.</p>}
      {files.length > 0 && (
        <ul className="max-h-96 divide-y divide-line overflow-y-auto" aria-label={`Files in ${at}`} tabIndex={0}>
          {files.map((f) => (
            <li key={f.name} className="flex flex-wrap items-center gap-x-4 gap-y-1 py-1.5 pr-1 text-sm">
              <span className="min-w-0 grow font-mono break-all">
                <Name workspace={workspace} directory={at} file={f} onOpen={setPath} />
              </span>
              <span className="text-ink-2 tabular-nums">{f.type === "file" && bytes(f.size)}</span>
              <span className="text-ink-2">
                <RelativeTime at={f.modified_at} />
              </span>
              <Confirm
                act={`Remove ${f.name}`}
                brief
                submit="Remove"
                look="danger"
                icon="trash"
                title={`Remove ${f.name}?`}
                effect={f.type === "directory" ? "It is removed with all that is in it." : "It cannot be brought back."}
                done={`${f.name} is removed.`}
                run={() =>
                  remove.mutateAsync({
                    params: { workspace, path: within(at, f.name), ...(f.type === "directory" && { recursive: true }) },
                  })
                }
              />
            </li>
          ))}
        </ul>
      )}
      {list.hasNextPage && <More of={list} shown={files.length} what="file" />}
    </Section>
  );
}

function Name({ workspace, directory, file: f, onOpen }: {
  workspace: string;
  directory: string;
  file: Entry;
  onOpen: (path: string) => void;
}) {
  const path = within(directory, f.name);
  switch (f.type) {
    case "directory":
      return (
        <button type="button" className="link" onClick={() => onOpen(path)}>
          {f.name}/
        </button>
      );
    case "file":
      return (
        <a className="link" href={address("read-file", { workspace, path }).url} download={f.name}>
          {f.name}
        </a>
      );
    case "symlink":
      return (
        <>
          <button type="button" className="link" onClick={() => onOpen(path)}>
            {f.name}
          </button>{" "}
          → {f.target}
        </>
      );
    case "other":
      return <>{f.name}</>;
  }
}

/** Upload writes files into a directory, and asks before it replaces one. */
function Upload({ workspace, directory, known, onDone }: {
  workspace: string;
  directory: string;
  known: readonly Entry[];
  onDone: () => void;
}) {
  const input = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState<readonly File[]>([]);
  const send = async (files: readonly File[]) => {
    setAsked([]);
    setBusy(true);
    try {
      for (const file of files) {
        const { method, url } = address("write-file", { workspace, path: within(directory, file.name) });
        await request(url, { method, body: file, headers: { "Content-Type": "application/octet-stream" } });
      }
      toast(files.length === 1 ? `${files[0]?.name} is uploaded.` : `${counted(files.length, "file")} are uploaded.`);
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e), true);
    } finally {
      setBusy(false);
      onDone();
    }
  };
  const choose = (files: readonly File[]) => {
    if (files.some((f) => known.some((k) => k.name === f.name))) setAsked(files);
    else if (files.length > 0) void send(files);
  };
  const replaced = asked.filter((f) => known.some((k) => k.name === f.name)).map((f) => f.name);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={(e) => {
          choose([...(e.target.files ?? [])]);
          e.target.value = "";
        }}
      />
      <Button icon="plus" busy={busy} onClick={() => input.current?.click()}>
        Upload
      </Button>
      <Dialog title={`Replace ${counted(replaced.length, "file")}?`} open={asked.length > 0} onClose={() => setAsked([])}>
        <p className="break-words text-ink-2">{replaced.join(", ")}</p>
        <div className="flex flex-wrap justify-end gap-2">
          <Button look="quiet" onClick={() => setAsked([])}>
            Cancel
          </Button>
          <Button look="danger" onClick={() => void send(asked)}>
            Replace
          </Button>
        </div>
      </Dialog>
    </>
  );
}
