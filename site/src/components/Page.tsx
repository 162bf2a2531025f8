import { useEffect, type ReactNode } from "react";

interface Props {
  /** Of the page, and of the browser's tab. */
  title: string;
  /** What stands above the title: where one is. */
  above?: ReactNode;
  /** Beside the title: what can be done here. */
  actions?: ReactNode;
  /** Below the title, in a line. */
  lead?: ReactNode;
  children: ReactNode;
}

/** Page is the frame of every page but sign-in. */
export function Page({ title, above, actions, lead, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Prewarm`;
  }, [title]);
  return (
    <div className="mx-auto flex w-full max-w-7xl flex-col gap-6 px-4 py-6 sm:px-8 sm:py-8 3xl:max-w-[150rem]">
      <header className="flex flex-wrap items-end gap-x-6 gap-y-3">
        <div className="min-w-0 grow">
          {above && <div className="mb-1 text-sm text-ink-2">{above}</div>}
          <h1 className="text-2xl font-semibold tracking-tight break-words">{title}</h1>
          {lead && <div className="mt-1.5 text-ink-2">{lead}</div>}
        </div>
        {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** Section is a part of a page with a heading of its own. */
export function Section({ title, beside, children, className = "" }: {
  title: string;
  beside?: ReactNode;
  children: ReactNode;
  className?: string;
}) {
  return (
    <section aria-label={title} className={`card min-w-0 ${className}`}>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 px-5 pt-4">
        <h2 className="grow text-sm font-semibold">{title}</h2>
        {beside && <div className="text-sm text-ink-2">{beside}</div>}
      </div>
      <div className="px-5 pt-3 pb-5">{children}</div>
    </section>
  );
}
