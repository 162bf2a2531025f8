package dbtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

func TestOpen_eachTestHasItsOwnDatabase(t *testing.T) {
	ctx := context.Background()
	one, two := dbtest.Open(t), dbtest.Open(t)
	first, err := one.EnsureInstallation(ctx)
	require.NoError(t, err)
	second, err := two.EnsureInstallation(ctx)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

func TestSetNow(t *testing.T) {
	ctx := context.Background()
	store := dbtest.Open(t)
	at := time.Date(2031, 2, 3, 4, 5, 6, 789000, time.UTC)

	dbtest.SetNow(t, store, at)
	now, err := database.New(store).GetNow(ctx)
	require.NoError(t, err)
	require.Equal(t, at, now)

	dbtest.SetNow(t, store, time.Time{})
	now, err = database.New(store).GetNow(ctx)
	require.NoError(t, err)
	require.NotEqual(t, at, now)
}
