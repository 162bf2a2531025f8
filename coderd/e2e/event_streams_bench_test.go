package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// BenchmarkEventStreams measures what screens cost a replica: 500 streams for each of which it has 50 changes a second,
// over 10 s an iteration. The changes are written beside the replica, which has nothing else to do, so that what it
// spends is spent on streams; each is hinted at, so that the replica looks as often as it ever does. Figures:
//
//	core-%       of one core, as the kernel counts the process's time
//	idle-core-%  the same for as long before, without streams
//	MB, idle-MB  resident memory, with the streams and before them
//	heard        messages a second over all streams
//
// Run it as
//
//	go test ./coderd/e2e -run '^$' -bench EventStreams -benchtime 3x
func BenchmarkEventStreams(b *testing.B) {
	const streams, perSecond, spell = 500, 50, 10 * time.Second
	ctx := b.Context()
	url := dbtest.URL(b)
	store := dbtest.OpenURL(b, url, database.Options{})
	server := e2etest.Start(b, e2etest.Options{PostgresURL: url})
	write := func() {
		b.Helper()
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for i := range int(spell.Seconds()) * perSecond {
			_, err := store.Pool.Exec(ctx, `INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id)
				SELECT now(), m.user_id, m.organization_id, 'preset.test', 'preset', $1 FROM memberships m WHERE role = 'owner'`,
				fmt.Sprint(i))
			require.NoError(b, err)
			// As a claim that was bound would; of no claim that anybody waits for.
			require.NoError(b, database.New(store).Notify(ctx, database.NotifyParams{Channel: hints.Bindings, Payload: "none"}))
			<-tick.C
		}
	}
	idleMB, before := megabytes(b, server.PID()), cpu(b, server.PID())
	write()
	idle := cpu(b, server.PID()) - before

	var heard atomic.Int64
	var joined, listening sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	joined.Add(streams)
	for range streams {
		listening.Go(func() {
			stream, err := server.Client.Events(ctx)
			if err == nil {
				defer stream.Close()
				var e sdk.Events
				e, err = stream.Next(ctx)
				if !e.Everything {
					err = fmt.Errorf("the first message is not everything: %w", err)
				}
			}
			joined.Done()
			for ; err == nil; heard.Add(1) {
				_, err = stream.Next(ctx)
			}
			if ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	joined.Wait()
	before = cpu(b, server.PID())
	heard.Store(0)
	for b.Loop() {
		write()
	}
	spent, seconds := cpu(b, server.PID())-before, b.Elapsed().Seconds()
	b.ReportMetric(100*spent.Seconds()/seconds, "core-%")
	b.ReportMetric(100*idle.Seconds()/spell.Seconds(), "idle-core-%")
	b.ReportMetric(megabytes(b, server.PID()), "MB")
	b.ReportMetric(idleMB, "idle-MB")
	b.ReportMetric(float64(heard.Load())/seconds, "heard/s")
	stop()
	listening.Wait()
}

// cpu is what a process has spent of processor time.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
	fields := strings.Fields(after)
	var ticks int
	for _, field := range fields[11:13] { // user and system time, in hundredths of a second
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// megabytes is the resident memory of a process.
func megabytes(t testing.TB, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	require.NoError(t, err)
	return float64(kb) / 1024
}
