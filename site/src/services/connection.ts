/** The first tries come after this time, in milliseconds; later ones after twice as long each, up to the longest. */
const first = 1_000;
const longest = 15_000;

/** A try that takes longer than this has failed, in milliseconds. */
export const patience = 5_000;

export interface Lost {
  /** When the server last answered: what is shown is as old as that. */
  heard: number;
  /** When it is asked next; while it is being asked, that is past. */
  next: number;
}

/**
 * Connection knows whether the server answers. One request that fails may be of a replica that ended while another goes on, so
 * the server is lost when it does not answer once more. It is asked again and again until it does.
 */
export class Connection {
  private heardAt = Date.now();
  private state: Lost | undefined;
  private failures = 0;
  private asking = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly watchers = new Set<() => void>();
  private waiting: (() => void)[] = [];
  private readonly ask: () => Promise<unknown>;

  /** onBack is called when a server that was lost answers. */
  onBack: () => void = () => undefined;

  /** ask asks the server for something, and fails where it does not answer. */
  constructor(ask: () => Promise<unknown>) {
    this.ask = ask;
  }

  /** lost and watch are for useSyncExternalStore. */
  readonly lost = (): Lost | undefined => this.state;
  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** heard says that the server answered, or that what is shown is current. */
  heard(): void {
    this.heardAt = Date.now();
    this.failures = 0;
    clearTimeout(this.timer);
    this.timer = undefined;
    const waiting = this.waiting;
    this.waiting = [];
    for (const go of waiting) go();
    if (!this.state) return;
    this.set(undefined);
    this.onBack();
  }

  /** answered asks the server, and waits until it answers. */
  answered(): Promise<void> {
    const answered = new Promise<void>((go) => this.waiting.push(go));
    this.doubt();
    return answered;
  }

  /** doubt says that the server may be gone: it is asked. */
  doubt(): void {
    if (this.asking || this.timer !== undefined) return;
    void this.try();
  }

  /** try asks now, not at the next try. */
  async try(): Promise<void> {
    if (this.asking) return;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.asking = true;
    if (this.state) this.set({ ...this.state, next: Date.now() });
    try {
      await this.ask();
      this.asking = false;
      this.heard();
    } catch {
      this.asking = false;
      this.failed();
    }
  }

  private failed(): void {
    const wait = Math.min(first * 2 ** this.failures, longest) * (0.8 + Math.random() * 0.2);
    this.failures += 1;
    this.timer = setTimeout(() => void this.try(), wait);
    if (this.failures > 1) this.set({ heard: this.heardAt, next: Date.now() + wait });
  }

  private set(state: Lost | undefined): void {
    this.state = state;
    for (const watcher of this.watchers) watcher();
  }
}

/** connection is that of this tab. Any answer is one, also that the session is over. */
export const connection = new Connection(async () => {
  const answer = await fetch("/api/v1/whoami", { signal: AbortSignal.timeout(patience), cache: "no-store" });
  if (gatewayOnly(answer)) throw new Error("the server does not answer");
});

/** gatewayOnly says whether an answer is of a proxy whose server is gone, and not of the server. */
export function gatewayOnly(answer: Response): boolean {
  const ours = answer.headers.get("Content-Type")?.includes("json") ?? false;
  return [502, 503, 504].includes(answer.status) && !ours;
}

/**
 * patiently loads a page's file. Where the server is lost it waits, and loads it again when it is back: the router would load
 * the whole page again instead, and the browser would then have none.
 */
export async function patiently<T>(load: () => Promise<T>, of: Connection = connection): Promise<T> {
  try {
    return await load();
  } catch {
    await of.answered();
    return load();
  }
}
