/** counted is a number with its noun, which is singular for one: 1 claim, 2 claims, 2 entries. */
export function counted(n: number, noun: string, plural = `${noun}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? noun : plural}`;
}

/** verb agrees with a number: 1 is, 2 are. */
export function verb(n: number, one: string, many: string): string {
  return n === 1 ? one : many;
}
