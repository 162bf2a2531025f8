import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { patience } from "./browser";

/** The prompt, which says how the last command ended. */
const prompt = /\[(\d+)\]\$ $/;

/** Terminal is a shell on a terminal of its own, at which a person types: 100 columns, without colours. */
export class Terminal {
  private readonly shell: ChildProcessWithoutNullStreams;
  private seen = "";
  private readonly waiting = new Set<() => void>();

  constructor(folder: string, environment: NodeJS.ProcessEnv) {
    const line = "exec bash --norc --noprofile --noediting -i";
    this.shell = spawn("script", ["-qfec", `stty cols 100 rows 40; ${line}`, "/dev/null"], {
      cwd: folder,
      env: { ...environment, PS1: "[$?]$ ", TERM: "dumb", HISTFILE: "", PROMPT_COMMAND: "" },
    });
    const hear = (chunk: Buffer) => {
      this.seen = (this.seen + chunk.toString().replaceAll("\r", "")).slice(-200_000);
      for (const look of this.waiting) look();
    };
    this.shell.stdout.on("data", hear);
    this.shell.stderr.on("data", hear);
  }

  /** says waits until what was written since `from` has something in it, and returns that. */
  async says(what: RegExp, from = 0): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => end(() => reject(new Error(`the terminal does not say ${what}:\n${this.seen.slice(from)}`))), patience);
      const end = (settle: () => void) => {
        clearTimeout(late);
        this.waiting.delete(look);
        settle();
      };
      const look = () => {
        const found = what.exec(this.seen.slice(from));
        if (found) end(() => resolve(found));
      };
      this.waiting.add(look);
      look();
    });
  }

  /** type writes a line, as keys do, and returns where the answer begins. */
  type(line: string): number {
    const from = this.seen.length;
    this.shell.stdin.write(`${line}\n`);
    return from;
  }

  /** run types a command, waits until it has ended, and returns what it wrote. It must end with a status: 0 where none is given. */
  async run(command: string, status = 0): Promise<string> {
    await this.says(prompt);
    const from = this.type(command);
    const ended = await this.says(new RegExp(`\\n${prompt.source}`), from);
    const wrote = this.seen.slice(from, from + ended.index).replace(/^.*\n?/, ""); // without the echo of the command
    if (Number(ended[1]) !== status) throw new Error(`${command}: status ${ended[1]}, not ${status}:\n${wrote}`);
    return wrote;
  }

  async close(): Promise<void> {
    if (this.shell.exitCode !== null || this.shell.signalCode !== null) return;
    const ended = once(this.shell, "exit");
    this.shell.kill("SIGTERM");
    await ended;
  }
}
