import type { ButtonHTMLAttributes } from "react";
import { Icon, type IconName } from "./Icon";

const looks = {
  primary: "bg-accent text-on-accent border-transparent hover:brightness-110",
  plain: "bg-surface text-ink border-line-strong hover:bg-sunken",
  quiet: "bg-transparent text-ink border-transparent hover:bg-sunken",
  danger: "bg-surface text-failed border-failed hover:bg-sunken",
};

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: keyof typeof looks;
  icon?: IconName;
  /** The act is under way: the button waits with it. */
  busy?: boolean;
}

export function Button({ look = "plain", icon, busy = false, className = "", children, disabled, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      className={
        "inline-flex min-h-9 items-center justify-center gap-2 rounded-lg border px-3.5 py-1.5 text-sm font-medium " +
        `whitespace-nowrap transition-colors disabled:cursor-not-allowed disabled:opacity-60 ${looks[look]} ${className}`
      }
    >
      {icon && <Icon name={busy ? "refresh" : icon} className={busy ? "size-4 animate-spin" : "size-4"} />}
      {children}
    </button>
  );
}
