package inventory

import (
	"context"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// What people decide about a provider, within the transaction that records it.

// CloseBreakers closes the breakers of a provider, and returns those that were open, as they were.
func CloseBreakers(ctx context.Context, db database.DBTX, provider string) ([]inventorydb.CloseBreakersRow, error) {
	return inventorydb.New(db).CloseBreakers(ctx, provider)
}

// LookSoon has the next inventories of a provider made at once.
func LookSoon(ctx context.Context, db database.DBTX, provider string) error {
	return inventorydb.New(db).LookSoon(ctx, provider)
}

// ConfirmProvider lets a provider's inventories delete what they find. It returns 0 where they may already.
func ConfirmProvider(ctx context.Context, db database.DBTX, provider string) (int64, error) {
	return inventorydb.New(db).ConfirmProvider(ctx, provider)
}
