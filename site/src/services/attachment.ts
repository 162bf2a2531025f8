import { address, call, Problem } from "./api";

/** The streams of an exec connection, the first byte of each binary message (coderd/sdk/exec.go). */
const stream = { stdin: 0, resize: 4 } as const;

/** So many bytes go into one message of input. */
const chunk = 16 << 10;

/** Output that is not drawn yet: with so many bytes of it the connection is given up until all is drawn, and taken up again. */
const most = 4 << 20;

/** Pauses between tries to connect, in milliseconds: the first, and the longest. */
const pause = { first: 250, most: 5_000 } as const;

export interface Size {
  rows: number;
  cols: number;
}

/** State of an attachment. What has ended stays so; text says how. */
export type State = { is: "connecting" | "open" | "lost" } | { is: "ended"; text: string };

export interface Screen {
  /** output is drawn, and drawn is called when it is. */
  output: (bytes: Uint8Array, drawn: () => void) => void;
  /** cut says that so many bytes of output are not kept any more. */
  cut: (bytes: number) => void;
  state: (state: State) => void;
  size: () => Size;
}

/**
 * Attachment is a terminal's connection to its process in a workspace: output from an offset on, and input. A connection that
 * ends before the process is opened again, at whatever replica answers, where the output left off: no byte is missing and
 * none comes twice, but for what the agent does not keep.
 */
export class Attachment {
  private socket: WebSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private over = false;
  private failures = 0;
  /** The offset of the next byte of output. */
  private at = 0;
  private undrawn = 0;
  /** Too much is undrawn: the connection waits for all of it. */
  private full = false;
  private readonly workspace: string;
  private readonly process: string;
  private readonly screen: Screen;

  constructor(workspace: string, process: string, screen: Screen) {
    this.workspace = workspace;
    this.process = process;
    this.screen = screen;
  }

  start(): void {
    this.screen.state({ is: "connecting" });
    void this.connect();
  }

  /** stop leaves the process as it is. */
  stop(): void {
    this.over = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  /** write sends input. Without a connection it is lost, as the screen's state says. */
  write(text: string): void {
    const bytes = new TextEncoder().encode(text);
    for (let from = 0; from < bytes.length; from += chunk) this.send(stream.stdin, bytes.subarray(from, from + chunk));
  }

  resize(size: Size): void {
    this.send(stream.resize, new TextEncoder().encode(JSON.stringify(size)));
  }

  private send(kind: number, bytes: Uint8Array): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = kind;
    message.set(bytes, 1);
    this.socket.send(message);
  }

  private async connect(): Promise<void> {
    const params = { workspace: this.workspace, process: this.process };
    try {
      const { kept } = await call("show-process", { params });
      if (this.over) return;
      if (kept > this.at) {
        this.screen.cut(kept - this.at);
        this.at = kept;
      }
    } catch (e) {
      // Whoever may not enter any more, or finds no process, need not ask again.
      if (e instanceof Problem && (e.status === 501 || (e.status >= 400 && e.status < 500 && e.status !== 429))) this.end(e.message);
      else this.retry();
      return;
    }
    const url = new URL(address("attach-process", { ...params, offset: this.at }).url, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      // The protocol is that of exec, which wants a command; none is run here.
      socket.send(JSON.stringify({ command: ["attach"], tty: true, ...this.screen.size() }));
      this.screen.state({ is: "open" });
    };
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.last(data) : this.output(new Uint8Array(data as ArrayBuffer)));
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = undefined;
      this.retry();
    };
  }

  private output(message: Uint8Array): void {
    if (this.over || !this.socket) return;
    this.failures = 0;
    const bytes = message.subarray(1);
    this.at += bytes.length;
    this.undrawn += bytes.length;
    this.screen.output(bytes, () => {
      this.undrawn -= bytes.length;
      if (!this.full || this.undrawn > 0 || this.over) return;
      this.full = false;
      void this.connect();
    });
    if (this.undrawn <= most) return;
    const { socket } = this;
    this.full = true;
    this.socket = undefined; // what it still brings is read again
    socket.close();
  }

  /** last is the server's last word: the exit code, or why the connection ends. */
  private last(text: string): void {
    const { exit_code: code } = JSON.parse(text) as { exit_code?: number; error?: string };
    if (code !== undefined) this.end(`ended with exit code ${code}`);
  }

  private retry(): void {
    if (this.over || this.timer !== undefined) return;
    this.screen.state({ is: "lost" });
    const wait = Math.min(pause.most, pause.first * 2 ** this.failures) * (0.5 + Math.random());
    this.failures++;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.connect();
    }, wait);
  }

  private end(text: string): void {
    if (this.over) return;
    this.stop();
    this.screen.state({ is: "ended", text });
  }
}
