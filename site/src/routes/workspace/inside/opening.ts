/** The port that was clicked last, for the page that opens in the new tab: a tab has nothing else from the one before. */
const key = "prewarm-opening";

/** How long a click counts, in milliseconds. */
const fresh = 10_000;

const of = (workspace: string, port: string) => `${workspace} ${port}`;

/** clicked says that a page of ours is about to open a port. */
export function clicked(workspace: string, port: number): void {
  localStorage.setItem(key, `${Date.now()} ${of(workspace, String(port))}`);
}

/** wasClicked says, once, whether the click that opened this page was on a page of ours: no other origin can say so. */
export function wasClicked(workspace: string, port: string): boolean {
  const said = localStorage.getItem(key) ?? "";
  localStorage.removeItem(key);
  const [at, ...what] = said.split(" ");
  return what.join(" ") === of(workspace, port) && Date.now() - Number(at) < fresh;
}
