/** Changed is one value of what an entry of the log is about. */
export interface Changed {
  name: string;
  before?: string;
  after?: string;
}

const object = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);

const most = 2_000;

/** text is a value as one reads it; long ones are cut. */
function text(v: unknown): string {
  const s = typeof v === "string" ? v : JSON.stringify(v);
  return s.length > most ? `${s.slice(0, most)}…` : s;
}

/** changesOf is what differs between before and after, value by value; what is the same on both sides is left out. */
export function changesOf(before: unknown, after: unknown): Changed[] {
  const empty = (v: unknown) => v === undefined || v === null;
  if (empty(before) && empty(after)) return [];
  if (!(empty(before) || object(before)) || !(empty(after) || object(after))) {
    return [{ name: "value", ...(!empty(before) && { before: text(before) }), ...(!empty(after) && { after: text(after) }) }];
  }
  const b = object(before) ? before : {};
  const a = object(after) ? after : {};
  return [...new Set([...Object.keys(b), ...Object.keys(a)])].flatMap((name) => {
    const was = empty(b[name]) ? undefined : text(b[name]);
    const is = empty(a[name]) ? undefined : text(a[name]);
    if (was === is) return [];
    return [{ name, ...(was !== undefined && { before: was }), ...(is !== undefined && { after: is }) }];
  });
}
