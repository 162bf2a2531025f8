import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef } from "react";
import { Attachment, type State } from "../../../services/attachment";
import { useTheme } from "../../../services/theme";
import { withoutInlineStyles } from "./sheets";

/** So many lines that have left the screen can be scrolled back to. */
const scrollback = 5_000;

/** colours are those of the page, as they are now. */
function colours() {
  const of = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return {
    background: of("--sunken"),
    foreground: of("--ink"),
    cursor: of("--accent"),
    cursorAccent: of("--sunken"),
    selectionBackground: of("--line-strong"),
  };
}

/** Screen is a process's terminal. Its page loads it only where it is opened. */
export function Screen({ workspace, process, focus, onState, onLeave }: {
  workspace: string;
  process: string;
  /** Whether the keyboard goes there once it is open. */
  focus: boolean;
  onState: (state: State) => void;
  /** The keyboard is to leave the terminal, which takes every other key. */
  onLeave: () => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const shown = useRef<Terminal>(undefined);
  const props = useRef({ focus, onState, onLeave });
  props.current = { focus, onState, onLeave };
  const [theme] = useTheme();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const restore = withoutInlineStyles();
    const terminal = new Terminal({
      fontFamily: getComputedStyle(element).fontFamily,
      fontSize: 13,
      minimumContrastRatio: 4.5,
      screenReaderMode: true,
      scrollback,
      theme: colours(),
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(element);
    fit.fit();
    shown.current = terminal;
    const attachment = new Attachment(workspace, process, {
      output: (bytes, drawn) => terminal.write(bytes, drawn),
      cut: (bytes) => terminal.write(`\r\n[${bytes} bytes of output are not kept any more]\r\n`),
      size: () => ({ rows: terminal.rows, cols: terminal.cols }),
      state: (state) => {
        terminal.options.disableStdin = state.is !== "open";
        props.current.onState(state);
      },
    });
    terminal.onData((text) => attachment.write(text));
    terminal.onResize(({ rows, cols }) => attachment.resize({ rows, cols }));
    terminal.attachCustomKeyEventHandler((event) => {
      if (event.key !== "Escape" || !event.shiftKey) return true;
      if (event.type === "keydown") props.current.onLeave();
      return false;
    });
    const resized = new ResizeObserver(() => fit.fit());
    resized.observe(element);
    attachment.start();
    if (props.current.focus) terminal.focus();
    return () => {
      resized.disconnect();
      attachment.stop();
      terminal.dispose();
      restore();
    };
  }, [workspace, process]);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const paint = () => {
      if (shown.current) shown.current.options.theme = colours();
    };
    paint();
    dark.addEventListener("change", paint);
    return () => dark.removeEventListener("change", paint);
  }, [theme]);
  return <div ref={box} className="h-96 min-h-40 resize-y overflow-hidden rounded-lg bg-sunken p-3 font-mono" />;
}
