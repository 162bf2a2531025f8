import { useId, useRef, useState, type ReactNode } from "react";
import { Problem } from "../services/api";
import { Button } from "./Button";
import type { IconName } from "./Icon";

/** Control is what a field gives its input, select or textarea. */
export interface Control {
  id: string;
  name: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean | undefined;
}

/** Field is a control with its label, a hint, and below it what is wrong with it. */
export function Field({ name, label, hint, error, children }: {
  name: string;
  label: string;
  hint?: ReactNode;
  error?: string | undefined;
  children: (control: Control) => ReactNode;
}) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className="flex flex-col gap-1.5 text-sm">
      <label htmlFor={id} className="font-medium">
        {label}
      </label>
      {children({ id, name, "aria-describedby": described || undefined, "aria-invalid": error ? true : undefined })}
      {hint && (
        <p id={`${id}-hint`} className="text-ink-2">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} role="alert" className="break-words text-failed">
          {error}
        </p>
      )}
    </div>
  );
}

/** Fault is what is wrong with an input: of which field, where that is known. */
export interface Fault {
  field?: string | undefined;
  text: string;
}

/**
 * faultOf finds the field that an error is about: by its place (body.url), or since its text begins with the name of the field
 * ("url: …", "path \"x\": …").
 */
export function faultOf(error: unknown, fields: readonly string[]): Fault {
  const text = error instanceof Error ? error.message : String(error);
  for (const e of error instanceof Problem ? error.errors : []) {
    const field = e.location?.replace(/^body\./, "");
    if (field && fields.includes(field)) return { field, text: plain(e.message ?? text) };
  }
  const word = /^(?:a |there is no )?(\w+)/.exec(text)?.[1];
  if (!word || !fields.includes(word)) return { text };
  return { field: word, text: text.replace(new RegExp(`^${word}: `), "") };
}

/** plain is what the check of a schema says, in words. */
const plain = (text: string) => text.replace(/^expected length ([<>])= (\d+)$/, (_, sign, n) => `at ${sign === ">" ? "least" : "most"} ${n} characters`);

/**
 * Form sends what is in its fields, and shows what the server says of one at that field, which then has the focus. What is
 * written is kept in the fields alone, so a secret is gone with them.
 */
export function Form({ act, icon, fields, children, onCancel, onSubmit }: {
  /** What the button says that sends it. */
  act: string;
  icon?: IconName;
  /** Names of all fields that an error can be about. */
  fields: readonly string[];
  children: (wrong: (field: string) => string | undefined) => ReactNode;
  onCancel: () => void;
  onSubmit: (data: FormData) => Promise<unknown>;
}) {
  const form = useRef<HTMLFormElement>(null);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<Fault>();
  const submit = async () => {
    if (!form.current) return;
    setBusy(true);
    setFault(undefined);
    try {
      await onSubmit(new FormData(form.current));
    } catch (e) {
      const found = faultOf(e, fields);
      const at = found.field === undefined ? null : form.current?.elements.namedItem(found.field);
      setFault(at instanceof HTMLElement ? found : { text: e instanceof Error ? e.message : String(e) });
      if (at instanceof HTMLElement) at.focus();
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      ref={form}
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      {children((field) => (fault?.field === field ? fault.text : undefined))}
      {fault && fault.field === undefined && (
        <p role="alert" className="text-sm break-words text-failed">
          {fault.text}
        </p>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        <Button look="quiet" onClick={onCancel}>
          Cancel
        </Button>
        <Button type="submit" look="primary" icon={icon} busy={busy}>
          {act}
        </Button>
      </div>
    </form>
  );
}

/** written is a field's text without spaces around it; nothing where it is empty. */
export function written(data: FormData, name: string): string | undefined {
  const value = data.get(name);
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** fileIn is the text of the file that a field has; nothing where none was chosen. */
export async function fileIn(data: FormData, name: string): Promise<string | undefined> {
  const value = data.get(name);
  return value instanceof File && value.size > 0 ? value.text() : undefined;
}
