package runners_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
)

// waiting is a workspace that waits for its configuration.
func (w *world) waiting(state database.WorkspaceState) ws {
	w.t.Helper()
	it := w.put(state, workspaces.Prewarm)
	w.exec(`UPDATE forge_runners SET asked_at = NULL, handed_out_at = NULL, registered_at = NULL, status = 'pending'
		WHERE workspace_id = $1`, it.id)
	return it
}

// Of any number that read a configuration one gets it, and the forge is asked once; and it is in no row.
func TestConfigurationOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	it := w.waiting("starting")
	w.cloud.registering = func() { time.Sleep(20 * time.Millisecond) }
	var got, refused atomic.Int32
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			c, err := w.service.Configuration(ctx, it.id, 1)
			switch {
			case err == nil:
				got.Add(1)
				if c.Name != it.name || c.JITConfig != "secret of "+it.name || c.Kind != "github" || c.Group != "g" {
					t.Errorf("wrong configuration: %+v", c)
				}
			case errors.Is(err, runners.ErrNotNow), errors.Is(err, runners.ErrHandedOut):
				refused.Add(1)
			default:
				t.Error(err)
			}
		}()
	}
	for range 8 {
		<-done
	}
	require.EqualValues(t, 1, got.Load())
	require.EqualValues(t, 7, refused.Load())
	require.Equal(t, []string{it.name}, w.cloud.names())
	_, err := w.service.Configuration(ctx, it.id, 1)
	require.ErrorIs(t, err, runners.ErrHandedOut)
	require.Regexp(t, `^it was read at 20\d\d-.*Z: `, err.Error())
	require.Equal(t, "1", w.text("SELECT runner_id FROM forge_runners"))
	require.NotContains(t, w.text("SELECT json_agg(r) FROM forge_runners r"), "secret")
}

// Only a starting workspace of a runner preset has one.
func TestConfigurationOfWhom(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	for _, state := range database.AllWorkspaceStateValues() {
		if state == database.WorkspaceStateStarting {
			continue
		}
		_, err := w.service.Configuration(ctx, w.waiting(state).id, 1)
		require.ErrorIs(t, err, runners.ErrNotNow, state)
		require.ErrorContains(t, err, "is "+string(state))
	}
	_, err := w.service.Configuration(ctx, uuid.New(), 1)
	require.ErrorIs(t, err, runners.ErrNoRunner)
	_, err = w.service.Configuration(ctx, w.waiting("starting").id, 2)
	require.ErrorIs(t, err, runners.ErrNoRunner)
	require.Empty(t, w.cloud.names())
}

// A forge that fails, or limits, takes nothing away: the next who asks gets it. What an asking left there whose answer was
// lost gives way, but not while it has a job.
func TestConfigurationAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	it := w.waiting("starting")
	until := time.Now().Add(time.Hour)
	for _, fail := range []error{errors.New("502 Bad Gateway"), &forge.RateLimited{Until: until}, forge.ErrRefused} {
		w.cloud.failing(fail)
		_, err := w.service.Configuration(ctx, it.id, 1)
		var failed *runners.ForgeError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, fail)
		w.exec("UPDATE forge_status SET runners_wait_until = NULL") // else the forge is left alone
	}
	w.cloud.failing(nil)
	w.cloud.set(it.name, forge.Active)
	_, err := w.service.Configuration(ctx, it.id, 1)
	require.ErrorIs(t, err, forge.ErrBusy)
	w.cloud.set(it.name, forge.Offline)
	_, err = w.service.Configuration(ctx, it.id, 1)
	require.NoError(t, err)
	require.Equal(t, "2", w.text("SELECT runner_id FROM forge_runners"), "the one before was removed")
}

// A workspace that goes while its forge registers it leaves nothing there: its drain waits for the asking, and what comes of
// that is not handed out.
func TestConfigurationTooLate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	it := w.waiting("starting")
	w.cloud.registering = func() {
		_, err := w.writer.Drain(ctx, w.Store, it.id, 1, "extraneous")
		require.NoError(t, err)
		v, err := w.service.Deregister(ctx, it.id, 1)
		require.NoError(t, err)
		require.False(t, v.Done)
		require.Contains(t, v.Why, "being registered")
	}
	_, err := w.service.Configuration(ctx, it.id, 1)
	require.ErrorIs(t, err, runners.ErrNotNow)
	require.Empty(t, w.cloud.names())
	w.exec("UPDATE forge_runners SET asking_until = now()")
	v, err := w.service.Deregister(ctx, it.id, 1)
	require.NoError(t, err)
	require.True(t, v.Done)
}

// A replica that died while it asked keeps nobody waiting for longer than its lease.
func TestConfigurationAfterACrash(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	it := w.waiting("starting")
	_, err := runnersdb.New(w.Store).BeginHandOut(ctx, runnersdb.BeginHandOutParams{WorkspaceID: it.id, Incarnation: 1, LeaseS: 60})
	require.NoError(t, err)
	w.cloud.set(it.name, forge.Offline) // it had got so far
	_, err = w.service.Configuration(ctx, it.id, 1)
	require.ErrorIs(t, err, runners.ErrNotNow)
	w.exec("UPDATE forge_runners SET asking_until = now()")
	c, err := w.service.Configuration(ctx, it.id, 1)
	require.NoError(t, err)
	require.Equal(t, "secret of "+it.name, c.JITConfig)
}

// What the inside says counts once it has its configuration, and idle is as good as a listing.
func TestReport(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	it := w.waiting("starting")
	registered := "SELECT registered_at IS NOT NULL FROM forge_runners"
	require.NoError(t, w.service.Report(ctx, it.id, 1, runners.SaidIdle))
	require.Equal(t, "false", w.text(registered))
	_, err := w.service.Configuration(ctx, it.id, 1)
	require.NoError(t, err)
	require.NoError(t, w.service.Report(ctx, it.id, 1, runners.SaidActive))
	require.Equal(t, "true", w.text(registered))
	require.Equal(t, "active", w.text("SELECT status FROM forge_runners"))
	since := w.text("SELECT status_since FROM forge_runners")
	require.NoError(t, w.service.Report(ctx, it.id, 1, runners.SaidActive))
	require.Equal(t, since, w.text("SELECT status_since FROM forge_runners"), "it is what it was")
	require.NoError(t, w.service.Report(ctx, it.id, 1, runners.SaidIdle))
	require.NotEqual(t, since, w.text("SELECT status_since FROM forge_runners"))
	require.NoError(t, w.service.Report(ctx, it.id, 1, runners.SaidFinished))
	require.Equal(t, "true", w.text("SELECT finished_at IS NOT NULL FROM forge_runners"))
	require.ErrorIs(t, w.service.Report(ctx, uuid.New(), 1, runners.SaidIdle), runners.ErrNoRunner)
}

// G2: what a workspace is to be at its forge, for providers that install the runner by themselves.
func TestToBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.exec("UPDATE forge_credentials SET ca_bundle = 'one and another'")
	it := w.waiting("provisioning")
	r, err := w.service.ToBe(t.Context(), it.id, 1)
	require.NoError(t, err)
	require.Equal(t, &provider.Runner{
		Group: "g", Labels: []string{"linux", "x64"}, URL: "https://forge.example/acme", JIT: true, CABundle: []byte("one and another"),
		Tools: []provider.Tool{{OS: "linux", Arch: "x64", URL: "https://forge.example/runner"}},
	}, r)
	w.cloud.old = true
	r, err = w.service.ToBe(t.Context(), it.id, 1)
	require.NoError(t, err)
	require.False(t, r.JIT, "it registers with a token")
	r, err = w.service.ToBe(t.Context(), uuid.New(), 1)
	require.NoError(t, err)
	require.Nil(t, r)
	w.cloud.failing(errors.New("502 Bad Gateway"))
	_, err = w.service.ToBe(t.Context(), it.id, 1)
	require.ErrorContains(t, err, "502 Bad Gateway")
}
