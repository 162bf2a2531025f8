package database_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// claimer claims on one connection, and knows what that cost the server.
type claimer struct {
	conn    *pgxpool.Conn
	presets []uuid.UUID
	next    int
	spent   []float64 // microseconds of processor for each claim, by rounds
}

func newClaimer(b *testing.B, url string, ready int) *claimer {
	const pools = 20
	store := dbtest.OpenURL(b, url+"&statement_timeout=0", database.Options{})
	dbtest.Fleet(b, store, dbtest.FleetSize{Pools: pools, Each: ready / pools, Claimed: 10_000})
	conn, err := store.Pool.Acquire(context.Background())
	require.NoError(b, err)
	b.Cleanup(conn.Release)
	c := &claimer{conn: conn}
	for n := range pools {
		var preset uuid.UUID
		require.NoError(b, conn.QueryRow(context.Background(), "SELECT id FROM presets WHERE id = md5('p' || $1::int)::uuid", n+1).Scan(&preset))
		c.presets = append(c.presets, preset)
	}
	return c
}

// processor is the time that the server's process of this connection has run.
func (c *claimer) processor(b *testing.B) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", c.conn.Conn().PgConn().PID()))
	if err != nil {
		b.Skipf("LEFT OUT: the server's processes cannot be seen from here: %v", err)
	}
	var ns float64
	_, err = fmt.Sscan(strings.Fields(string(text))[0], &ns)
	require.NoError(b, err)
	return ns
}

func (c *claimer) round(b *testing.B, claims, each int) {
	before := c.processor(b)
	for range claims {
		var of []uuid.UUID
		for range each {
			of = append(of, c.presets[c.next%len(c.presets)])
			c.next++
		}
		got, err := workspacesdb.New(c.conn).ClaimBatch(context.Background(),
			batchOf(uuid.MustParse("00000000-0000-4000-8000-000000000002"), of...))
		require.NoError(b, err)
		require.Len(b, got, each)
	}
	c.spent = append(c.spent, (c.processor(b)-before)/1000/float64(claims*each))
}

// BenchmarkClaim_logs compares what a claim costs the server with the tables of before and with partitions, on two databases of
// one server, in turns. The measure is the time that the server's process runs, which depends less on other work of the machine.
func BenchmarkClaim_logs(b *testing.B) {
	const claims, rounds = 100, 30
	for _, each := range []int{1, 8} {
		b.Run(fmt.Sprintf("batches=%d", each), func(b *testing.B) {
			ctx := context.Background()
			var before, partitioned *claimer
			for _, c := range []**claimer{&before, &partitioned} {
				url := dbtest.URL(b)
				store := dbtest.OpenURL(b, url, database.Options{})
				if c == &before {
					_, err := store.Pool.Exec(ctx, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
					require.NoError(b, err)
					require.NoError(b, database.MigrateTo(ctx, url, migrationsThrough(b, lastBeforeLogs), quartz.NewReal()))
				} else {
					keepLogs(b, store, 60)
				}
				*c = newClaimer(b, url, (rounds+1)*claims*each+20*each)
			}
			for n := range rounds + 1 {
				for _, c := range []*claimer{before, partitioned} {
					c.round(b, claims, each)
					if n == 0 {
						c.spent = nil // plans were made
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(middleOf(before.spent), "before-us/claim")
			b.ReportMetric(middleOf(partitioned.spent), "partitioned-us/claim")
			b.ReportMetric(middleOf(partitioned.spent)/middleOf(before.spent), "ratio")
		})
	}
}

func middleOf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
