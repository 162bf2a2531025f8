/** Progress is how much of something is done; its label says so in words. */
export function Progress({ done, of, label }: { done: number; of: number; label: string }) {
  return (
    <span role="img" aria-label={label} className="mt-1.5 block h-1.5 overflow-hidden rounded-full bg-sunken">
      <span className="block h-full rounded-full bg-starting" style={{ width: `${of > 0 ? Math.min(100, (done / of) * 100) : 0}%` }} />
    </span>
  );
}
