import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { Button } from "./Button";
import { toast } from "./Toasts";

interface Props {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ReactNode;
}

/** Dialog is the browser's own: it keeps the focus, and Escape closes it. */
export function Dialog({ title, open, onClose, children }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onClose={onClose}
      className="card m-auto w-[min(32rem,calc(100vw-2rem))] bg-surface p-6 text-ink"
    >
      <h2 id={id} className="text-lg font-semibold">
        {title}
      </h2>
      {open && <div className="mt-3 flex flex-col gap-4">{children}</div>}
    </dialog>
  );
}

interface ConfirmProps {
  /** What the button says that opens it, and the one that does it: a verb and what it is done to. */
  act: string;
  /** What the button says that does it, where it differs from act. */
  submit?: string;
  title: string;
  /** What will come of it, in so many words. */
  effect: ReactNode;
  /** What is said once it is done, unless run says it. */
  done: string;
  look?: "plain" | "quiet" | "danger" | "primary";
  icon?: Parameters<typeof Button>[0]["icon"];
  disabled?: boolean;
  /** The button that opens it has only its icon; what it does is its name. */
  brief?: boolean;
  /** Asks for a reason, for the audit log, which may be left empty or not. */
  reason?: boolean | "required";
  /** More to fill in, above the buttons. */
  children?: ReactNode;
  run: (reason: string) => Promise<unknown>;
}

/** Confirm is a button that says what it would do before it does it. */
export function Confirm({ act, submit: does, title, effect, done, look = "plain", icon, disabled, brief, reason, children, run }: ConfirmProps) {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState("");
  const [error, setError] = useState("");
  const submit = async () => {
    setBusy(true);
    setError("");
    try {
      const said = await run(why);
      toast(typeof said === "string" ? said : done);
      setOpen(false);
      setWhy("");
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button
        look={brief ? "quiet" : look}
        icon={icon}
        disabled={disabled}
        aria-label={brief ? act : undefined}
        onClick={() => setOpen(true)}
      >
        {!brief && act}
      </Button>
      <Dialog title={title} open={open} onClose={() => setOpen(false)}>
        <form
          className="flex flex-col gap-4"
          onSubmit={(e) => {
            e.preventDefault();
            void submit();
          }}
        >
          <div className="text-ink-2">{effect}</div>
          {children}
          {reason && (
            <label className="flex flex-col gap-1.5 text-sm font-medium">
              Reason, for the audit log
              <input className="field" value={why} maxLength={500} required={reason === "required"} onChange={(e) => setWhy(e.target.value)} />
            </label>
          )}
          {error && (
            <p role="alert" className="text-sm break-words text-failed">
              {error}
            </p>
          )}
          <div className="flex flex-wrap justify-end gap-2">
            <Button look="quiet" onClick={() => setOpen(false)}>
              Cancel
            </Button>
            <Button type="submit" look={look === "danger" ? "danger" : "primary"} busy={busy}>
              {does ?? act}
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
