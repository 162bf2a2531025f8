import type { ReactNode } from "react";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  /** Numbers stand at the right. */
  right?: boolean;
}

interface Props<T> {
  /** What it lists, for who does not see it. */
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
}

/** Table is for some hundred rows. On a narrow screen each row is a card, and each cell says what it is. */
export function Table<T>({ label, columns, rows, keyOf }: Props<T>) {
  return (
    <div className="card overflow-hidden">
      <table className="block w-full text-left text-sm md:table" aria-label={label}>
        <thead className="sr-only border-b border-line text-xs text-ink-2 md:not-sr-only md:table-header-group">
          <tr>
            {columns.map((c) => (
              <th key={c.title} scope="col" className={`px-5 py-3 font-medium ${c.right ? "text-right" : ""}`}>
                {c.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="block divide-y divide-line md:table-row-group">
          {rows.map((row) => (
            <tr key={keyOf(row)} className="block px-4 py-3 hover:bg-sunken/50 md:table-row md:p-0">
              {columns.map((c) => (
                <td
                  key={c.title}
                  className={`flex justify-between gap-4 py-1 md:table-cell md:px-5 md:py-3 ${c.right ? "md:text-right md:tabular-nums" : ""}`}
                >
                  <span className="shrink-0 text-ink-2 md:hidden" aria-hidden="true">
                    {c.title}
                  </span>
                  <div className={`min-w-0 text-right break-words ${c.right ? "" : "md:text-left"}`}>{c.cell(row)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
