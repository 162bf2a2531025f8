import { useState } from "react";
import { Button } from "./Button";

/** Copied is a text that one would rather copy than type. */
export function Copied({ label, text }: { label: string; text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <div>
      <p className="mb-1 text-sm text-ink-2">{label}</p>
      <div className="flex items-center gap-2 rounded-lg bg-sunken py-1 pr-1 pl-3">
        <code className="min-w-0 grow font-mono text-xs break-all">{text}</code>
        <Button
          look="quiet"
          icon={copied ? "check" : "copy"}
          aria-label={copied ? `Copied: ${label}` : `Copy: ${label}`}
          onClick={() => void navigator.clipboard?.writeText(text).then(() => setCopied(true))}
        />
      </div>
    </div>
  );
}
