package database_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

func TestOpen_sessionSettings(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.OpenURL(t, dbtest.URL(t), database.Options{Replica: "one"})
	require.Equal(t, 5*time.Second, store.Pool.Config().ConnConfig.ConnectTimeout)
	for setting, want := range map[string]string{
		"application_name":                    "prewarm/one",
		"TimeZone":                            "UTC",
		"jit":                                 "off",
		"statement_timeout":                   "30s",
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "30s",
	} {
		var got string
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
}

func TestOpen_urlWins(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t) + "&statement_timeout=1234&pool_max_conns=3&pool_min_idle_conns=1&connect_timeout=47"
	store := dbtest.OpenURL(t, url, database.Options{})
	var got string
	require.NoError(t, store.Pool.QueryRow(context.Background(), "SHOW statement_timeout").Scan(&got))
	require.Equal(t, "1234ms", got)
	require.EqualValues(t, 3, store.Pool.Config().MaxConns)
	require.EqualValues(t, 1, store.Pool.Config().MinIdleConns)
	require.Equal(t, 47*time.Second, store.Pool.Config().ConnConfig.ConnectTimeout)
}

func TestOpen_timesComeOutInUTC(t *testing.T) {
	t.Parallel()
	now, err := database.New(dbtest.Open(t)).GetNow(context.Background())
	require.NoError(t, err)
	require.Equal(t, time.UTC, now.Location())
}

func TestOpen_databaseAway(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store, err := database.Open(ctx, "postgres://prewarm@/prewarm?host=/nonexistent&sslmode=disable", database.Options{})
	require.NoError(t, err, "opening does not wait for the database")
	defer store.Close()
	_, err = database.New(store).GetNow(ctx)
	require.True(t, database.IsConnection(err), "%v", err)

	_, err = database.Open(ctx, "postgres://%", database.Options{})
	require.ErrorContains(t, err, "parse database URL")
}

func TestEnsureInstallation_oneForAllReplicas(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	const replicas = 8
	ids := make([]uuid.UUID, replicas)
	var wg sync.WaitGroup
	for i := range replicas {
		store := dbtest.OpenURL(t, url, database.Options{})
		wg.Go(func() {
			id, err := store.EnsureInstallation(context.Background())
			if err == nil {
				ids[i] = id
			}
		})
	}
	wg.Wait()
	require.NotEqual(t, uuid.Nil, ids[0])
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
}

// UUIDs travel as their bytes: nothing is allocated for one, and none is made a text and parsed again.
func TestOpen_uuids(t *testing.T) {
	ctx := context.Background()
	store := dbtest.OpenURL(t, dbtest.URL(t), database.Options{})
	id := uuid.New()
	var one, none uuid.UUID
	var pointer, nothing *uuid.UUID
	var list []uuid.UUID
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT $1::uuid, NULL::uuid, $1::uuid, NULL::uuid, ARRAY[$1::uuid]", id).
		Scan(&one, &none, &pointer, &nothing, &list))
	require.Equal(t, id, one)
	require.Equal(t, uuid.Nil, none)
	require.Equal(t, &id, pointer)
	require.Nil(t, nothing)
	require.Equal(t, []uuid.UUID{id}, list)

	conn, err := store.Pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	scan := conn.Conn().TypeMap().PlanScan(pgtype.UUIDOID, pgtype.BinaryFormatCode, &one)
	src := id[:]
	require.Zero(t, testing.AllocsPerRun(100, func() { require.NoError(t, scan.Scan(src, &one)) }))
	require.Error(t, scan.Scan(src[:15], &one))
}
