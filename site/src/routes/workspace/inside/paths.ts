/** within is the path of a name in a directory. */
export function within(directory: string, name: string): string {
  return directory.endsWith("/") ? directory + name : `${directory}/${name}`;
}

/** crumbs are the directories that lead to an absolute path, itself the last. */
export function crumbs(path: string): { name: string; path: string }[] {
  if (!path.startsWith("/")) return [];
  const list = [{ name: "/", path: "/" }];
  for (const part of path.split("/").filter(Boolean)) {
    const above = list.at(-1)?.path ?? "/";
    list.push({ name: `${part}/`, path: within(above, part) });
  }
  return list;
}

/** bytes is a size in words: "12 kB". */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 999.5 && unit < units.length - 1) {
    n /= 1000;
    unit++;
  }
  return `${unit === 0 || n >= 9.95 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}
