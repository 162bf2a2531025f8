package lifecycle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// hasten makes creates and backoffs that are waited for due now, and failures of long standing: those that a retry may
// mend reach the hard limit only then.
func hasten(t *testing.T, w *coderdtest.World) {
	t.Helper()
	for _, sql := range []string{
		"UPDATE jobs SET due_at = now() WHERE state = 'pending' AND kind = 'create' AND due_at > now()",
		"UPDATE preset_failures SET last_at = last_at - interval '1 minute' WHERE last_at > now() - interval '1 minute'",
		"UPDATE preset_failures SET first_at = first_at - interval '20 minutes' WHERE first_at > now() - interval '17 minutes'",
	} {
		_, err := w.Store.Pool.Exec(context.Background(), sql)
		require.NoError(t, err)
	}
}

// C8: with credentials that have expired nothing works, the clean-up before a retry neither. Each create is given up after
// its attempts all the same, and the third stops creation; what is to be deleted says why it can't be.
func TestBlame_expiredCredentialsReachTheHardLimit(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	p.create = func(context.Context, provider.CreateRequest) error { return xerrors.New("credentials expired") }
	p.delete = func(context.Context) error { return xerrors.New("credentials expired") }
	templates := w.Pool(t, "a", 2, 1)
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	ctx := context.Background()
	streak := 0
	coderdtest.Eventually(t, "hard limit", func() bool {
		hasten(t, w)
		r.Worker.Wake()
		r.Reconciler.Nudge(templates...)
		require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT coalesce(max(streak), 0) FROM preset_failures").Scan(&streak))
		return streak >= 3 && w.Count(t, "a", "provisioning") == 0
	})
	var ledger string
	coderdtest.Eventually(t, "the ledger says so", func() bool {
		require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT ledger::text FROM preset_status
			WHERE ledger::text LIKE '%hard limit%credentials expired%' UNION SELECT '' ORDER BY 1 DESC LIMIT 1`).Scan(&ledger))
		return ledger != ""
	})
	require.Equal(t, 3, streak)
	require.LessOrEqual(t, w.Count(t, "a", "deleting"), 6, "two at a time, three times")
	coderdtest.Eventually(t, "every delete says why", func() bool {
		var silent int
		require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT count(*) FROM jobs
			WHERE kind = 'delete' AND (failures = 0 OR last_error NOT LIKE 'delete workspace prebuild-%: credentials expired')`).Scan(&silent))
		return silent == 0
	})
}

// A provider that can't be made counts like one that says no.
func TestBlame_providerThatCannotBeMade(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	templates := w.Pool(t, "a", 1, 1)
	kind := func(is string) {
		_, err := w.Store.Pool.Exec(context.Background(), "UPDATE providers SET kind = $1 WHERE name = 'sim'", is)
		require.NoError(t, err)
		require.NoError(t, w.Providers.Read(context.Background()))
	}
	kind("no such kind")
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	r.Reconciler.Nudge(templates...)
	coderdtest.Eventually(t, "given up", func() bool {
		hasten(t, w)
		r.Worker.Wake()
		return w.Count(t, "a", "deleting") > 0
	})
	kind("sim")
	coderdtest.Eventually(t, "all is well again", func() bool {
		hasten(t, w)
		r.Reconciler.Nudge(templates...)
		return settled(t, w, 1)()
	})
}

// An outage in which all creates of a pool fail at once, for good, is one failure in the streak: when it is over, creation
// goes on by itself.
func TestBlame_anOutageIsOneFailure(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	var calls atomic.Int32
	outage := make(chan struct{})
	p.create = func(context.Context, provider.CreateRequest) error {
		if n := calls.Add(1); n <= 8 {
			if n == 8 { // all of them are begun
				close(outage)
			}
			<-outage
			return provider.Permanent(xerrors.New("no capacity"))
		}
		return nil
	}
	templates := w.Pool(t, "a", 8, 1)
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	ctx := context.Background()
	most := 0
	coderdtest.Eventually(t, "the pool is full", func() bool {
		streak := 0
		require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT coalesce(max(streak), 0) FROM preset_failures").Scan(&streak))
		most = max(most, streak)
		if streak > 0 {
			hasten(t, w)
			r.Reconciler.Nudge(templates...)
		}
		return settled(t, w, 8)()
	})
	require.LessOrEqual(t, most, 1)
	require.Equal(t, 8, w.Count(t, "a", "deleted"))
}

// A full disk of our own database is no failure of the provider's: no attempt is used up, and all goes on when there is
// room again. The disk is full for the writes that a create needs, one after the other.
func TestBlame_ourOwnDiskIsFull(t *testing.T) {
	t.Parallel()
	h := &host{hung: make(chan struct{})}
	h.given = []provider.Callback{{}} // none hangs
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		h.Provider = p
		return h
	})
	ctx := context.Background()
	exec := func(sql string) {
		t.Helper()
		_, err := w.Store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	exec(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	exec(`CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON agents FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	exec(`CREATE TRIGGER full_disk BEFORE UPDATE ON workspaces FOR EACH ROW WHEN (NEW.state = 'starting')
		EXECUTE FUNCTION full_disk()`)
	r := w.Start(t, coderdtest.Config{Lease: 2 * time.Second})
	r.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: t
    provider: sim
    agent: {}
    spec: {}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)...)
	attempt, failures, why := 0, 0, ""
	read := func() bool {
		err := w.Store.Pool.QueryRow(ctx, `SELECT max(attempt), max(failures), max(last_error) FROM jobs
			WHERE kind = 'create'`).Scan(&attempt, &failures, &why)
		return err == nil
	}
	hurry := func() {
		exec("UPDATE jobs SET due_at = now() WHERE state = 'pending' AND kind = 'create'")
		r.Worker.Wake()
	}
	coderdtest.Eventually(t, "tried more often than a provider may fail", func() bool {
		hurry()
		return read() && attempt > 6
	})
	require.Contains(t, why, "No space left on device", "it is shown what it waits for")
	exec("DROP TRIGGER full_disk ON agents")
	made := attempt
	coderdtest.Eventually(t, "made, and not recorded, more than once", func() bool {
		hurry()
		return read() && attempt > made+2
	})
	exec("DROP TRIGGER full_disk ON workspaces")
	coderdtest.Eventually(t, "recorded", func() bool {
		hurry()
		return w.Count(t, "t", "starting") == 1
	})
	require.True(t, read())
	require.Zero(t, failures)
	var streaks int
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM preset_failures").Scan(&streaks))
	require.Zero(t, streaks)
	n, err := w.Cloud.Count()
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
