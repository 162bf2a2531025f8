import type { Events, Hint } from "../generated/api";

/** The status that ends a stream whose session is over; connecting again is of no use. */
export const unauthorized = 4401;

/** Hints that come within this time are told together, in milliseconds. */
const gather = 100;

export interface News {
  /** Everything may have changed. */
  everything: boolean;
  hints: Hint[];
}

type Listener = (news: News) => void;

/**
 * Stream is the tab's only WebSocket: it hears what has changed (GET /api/v1/events), and connects again when it ends, a
 * while later, another for each tab.
 */
export class Stream {
  private socket: WebSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private flush: ReturnType<typeof setTimeout> | undefined;
  private pending: News = { everything: false, hints: [] };
  private reconnect = 0;
  private failures = 0;
  private open = false;
  private wanted = false;
  private readonly listeners = new Set<Listener>();
  private readonly watchers = new Set<() => void>();
  private readonly url: () => string;

  /** onUnauthorized is called when the session is over. */
  onUnauthorized: () => void = () => undefined;

  constructor(url: () => string) {
    this.url = url;
  }

  /** start connects, and stays so until stop. */
  start(): void {
    if (this.wanted) return;
    this.wanted = true;
    this.connect();
  }

  /** retry connects now where it would later. */
  retry(): void {
    if (!this.wanted || this.socket) return;
    clearTimeout(this.timer);
    this.failures = 0;
    this.connect();
  }

  stop(): void {
    this.wanted = false;
    clearTimeout(this.timer);
    clearTimeout(this.flush);
    this.flush = undefined;
    this.socket?.close();
    this.socket = undefined;
    this.setOpen(false);
  }

  /** listen hears what changes, until the function that it returns is called. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** up and watch are for useSyncExternalStore. */
  readonly up = (): boolean => this.open;
  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  private connect(): void {
    const socket = new WebSocket(this.url());
    this.socket = socket;
    socket.onmessage = (event) => {
      if (this.socket !== socket) return;
      this.take(JSON.parse(String(event.data)) as Events);
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = undefined;
      this.setOpen(false);
      if (event.code === unauthorized) {
        this.wanted = false;
        this.onUnauthorized();
      } else if (this.wanted) {
        this.timer = setTimeout(() => this.connect(), this.delay());
      }
    };
  }

  /** delay before the next connection, in milliseconds: what the server asked for, or a doubling one by chance. */
  private delay(): number {
    const asked = this.reconnect;
    this.reconnect = 0;
    if (asked > 0) return asked;
    this.failures += 1;
    return Math.random() * Math.min(500 * 2 ** this.failures, 15_000);
  }

  private take(message: Events): void {
    if (message.reconnect_ms) this.reconnect = message.reconnect_ms;
    if (!message.everything && !message.hints) return;
    this.failures = 0;
    this.setOpen(true);
    if (message.everything) this.pending = { everything: true, hints: [] };
    else if (!this.pending.everything) this.pending.hints.push(...(message.hints ?? []));
    this.flush ??= setTimeout(() => {
      const news = this.pending;
      this.pending = { everything: false, hints: [] };
      this.flush = undefined;
      for (const listener of this.listeners) listener(news);
    }, gather);
  }

  private setOpen(open: boolean): void {
    if (this.open === open) return;
    this.open = open;
    for (const watcher of this.watchers) watcher();
  }
}

/** stream is that of this tab. */
export const stream = new Stream(() => `${location.origin.replace(/^http/, "ws")}/api/v1/events`);
