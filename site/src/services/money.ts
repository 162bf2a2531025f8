/** money is an amount in a currency that is not said: two places, and more where it would read as nothing. */
export function money(amount: number): string {
  const places = amount !== 0 && Math.abs(amount) < 0.01 ? 4 : 2;
  return amount.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: places });
}
