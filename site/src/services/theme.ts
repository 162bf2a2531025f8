import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const key = "prewarm.theme"; // public/theme.js reads it before anything is painted
const watchers = new Set<() => void>();

function chosen(): Theme {
  const theme = document.documentElement.dataset["theme"];
  return theme === "light" || theme === "dark" ? theme : "system";
}

function choose(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  try {
    if (theme === "system") localStorage.removeItem(key);
    else localStorage.setItem(key, theme);
  } catch {
    // It holds for this page, at least.
  }
  for (const watcher of watchers) watcher();
}

/** useTheme is the chosen theme, and how to choose another. */
export function useTheme(): readonly [Theme, (theme: Theme) => void] {
  const theme = useSyncExternalStore((watcher) => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  }, chosen);
  return [theme, choose];
}
