package database_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

func TestEnterHome(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	enter := func() {
		t.Helper()
		guarded, err := store.EnterHome(ctx)
		require.NoError(t, err)
		require.True(t, guarded)
	}
	enter() // the first start of all
	first, err := database.New(store).Home(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, first.Carried)
	require.Equal(t, first.Carried, first.Here)
	enter()
	second, err := database.New(store).Home(ctx)
	require.NoError(t, err)
	require.NotEqual(t, first.Carried, second.Carried, "a dump made before can be told from what is now")

	refused := func(why, sql string) {
		t.Helper()
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
		_, err = store.EnterHome(ctx)
		require.ErrorIs(t, err, database.ErrRestored, why)
		require.NoError(t, store.InTx(ctx, database.TxOptions{Label: "test"},
			func(ctx context.Context, tx pgx.Tx) error { return database.New(tx).SettleHome(ctx) }))
		enter()
	}
	refused("an older dump in the same database", "COMMENT ON TABLE installation IS '"+first.Carried+"'")
	refused("another database", `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET prewarm.home', current_database()); END $$`)
	refused("another cluster, with the settings of the database", `COMMENT ON TABLE installation IS 'a/1';
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET prewarm.home = %L', current_database(), 'a/1'); END $$`)
}
