// Package inventorydb is the statements of inventory.
package inventorydb

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// EachInventoryRow is InventoryRows of a fleet whose rows are too many to hold: each is given to f as it comes, in the
// order of the ids. f must not use the database. With an error, f was given only some.
func (q *Queries) EachInventoryRow(ctx context.Context, arg InventoryRowsParams, f func(InventoryRowsRow)) error {
	rows, err := q.db.Query(ctx, inventoryRows, arg.Provider, arg.Site, arg.Ids)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := pgx.RowToStructByPos[InventoryRowsRow](rows)
		if err != nil {
			return err
		}
		f(row)
	}
	return rows.Err()
}
