package workspaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// event is one call of the writer. Where it may leave a situation, want says what comes of it; everywhere else it must
// change nothing at all.
type event struct {
	name          string
	keeps, reuses bool // what the template says
	do            func(ctx context.Context, b *bench, l workspaces.Lease) error
	leased        string // the kind of the job that it names with its attempt (I5); empty: none
	want          map[string]want
}

// want is what a transition leaves: the state, what became of the job that was there, and the one that follows.
type want struct {
	to      database.WorkspaceState
	oldJob  string
	nextJob string
}

var facts = workspaces.Facts{ProviderID: "new", Addresses: json.RawMessage(`[]`), Environment: json.RawMessage(`{}`)}

func (b *bench) person() workspaces.Actor {
	return workspaces.Actor{UserID: b.Owner, Source: "test", Reason: "by hand"}
}

func (b *bench) claimFor() workspaces.ClaimFor {
	return workspaces.ClaimFor{ClaimID: uuid.New(), PresetID: b.preset, UserID: b.Owner, Mode: "require", Source: "test"}
}

func failed(ctx context.Context, b *bench, l workspaces.Lease) error {
	_, _, err := b.writer.Failed(ctx, l, workspaces.Failure{Fault: "no such image", Log: "the end", PresetID: b.preset})
	return err
}

func release(ctx context.Context, b *bench, l workspaces.Lease) error {
	a := b.person()
	a.Incarnation = l.Incarnation
	_, err := b.writer.Release(ctx, a, l.WorkspaceID)
	return err
}

// remove is a person's deletion.
func remove(force bool) func(context.Context, *bench, workspaces.Lease) error {
	return func(ctx context.Context, b *bench, l workspaces.Lease) error {
		a := b.person()
		a.Incarnation = l.Incarnation
		_, err := b.writer.Delete(ctx, a, l.WorkspaceID, force)
		return err
	}
}

var events = []event{
	{
		name: "created", leased: "create",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Created(ctx, l, facts)
			return err
		},
		want: map[string]want{"provisioning": {"starting", "done", "probe"}},
	}, {
		name: "ready", leased: "probe",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, _, err := b.writer.Ready(ctx, l, facts, "ready")
			return err
		},
		want: map[string]want{"starting": {"ready", "done", ""}},
	}, {
		name: "failed", leased: "probe", do: failed,
		want: map[string]want{
			"provisioning": {"deleting", "failed", "delete"}, "starting": {"draining", "failed", "drain"},
			"starting, out of standby": {"draining", "failed", "drain"},
		},
	}, {
		name: "failed, kept", leased: "probe", keeps: true, do: failed,
		want: map[string]want{
			"provisioning": {"quarantined", "failed", ""}, "starting": {"quarantined", "failed", ""},
			"starting, out of standby": {"quarantined", "failed", ""},
		},
	}, {
		name: "silent",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Silent(ctx, l.WorkspaceID, l.Incarnation, "silent")
			return err
		},
		want: map[string]want{"ready": {"starting", "", "probe"}},
	}, {
		name: "no longer wanted",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Drain(ctx, b.Store, l.WorkspaceID, l.Incarnation, "extraneous")
			return err
		},
		want: map[string]want{
			"starting": {"draining", "cancelled", "drain"}, "starting, being reset": {"draining", "cancelled", "drain"},
			"starting, out of standby": {"draining", "cancelled", "drain"}, "standby, being stopped": {"draining", "cancelled", "drain"},
			"ready": {"draining", "", "drain"}, "standby": {"draining", "", "drain"},
		},
	}, {
		name: "no longer wanted, to be cancelled",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Cancel(ctx, b.Store, l.WorkspaceID, l.Incarnation, "outdated")
			return err
		},
		want: map[string]want{
			"provisioning":               {"deleting", "cancelled", "delete"},
			"provisioning, never leased": {"deleted", "cancelled", ""},
		},
	}, {
		name: "missing",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Missing(ctx, l.WorkspaceID, l.Incarnation, time.Now().Add(time.Hour), true, "nothing of it is there", time.Minute)
			return err
		},
		want: map[string]want{
			"starting": {"quarantined", "cancelled", ""}, "ready": {"quarantined", "", ""}, "standby": {"quarantined", "", ""},
			"starting, out of standby": {"quarantined", "cancelled", ""}, "standby, being stopped": {"quarantined", "cancelled", ""},
		},
	}, {
		name: "missing, by an inventory that began before",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Missing(ctx, l.WorkspaceID, l.Incarnation, time.Now().Add(-time.Hour), true, "nothing of it is there", time.Minute)
			return err
		},
	}, {
		name: "vanished",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Vanished(ctx, l.WorkspaceID, l.Incarnation, time.Now().Add(time.Hour), "nothing of it is there")
			return err
		},
		want: map[string]want{"deleting, in vain": {"deleted", "cancelled", ""}},
	}, {
		name: "drained", leased: "drain",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Drained(ctx, l, "never registered")
			return err
		},
		want: map[string]want{"draining": {"deleting", "done", "delete"}},
	}, {
		name: "gone", leased: "delete",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Gone(ctx, l, "nothing is left", "")
			return err
		},
		want: map[string]want{"deleting": {"deleted", "done", ""}},
	}, {
		name: "claimed",
		do: func(ctx context.Context, b *bench, _ workspaces.Lease) error {
			got, err := b.writer.ClaimBatch(ctx, []workspaces.ClaimFor{b.claimFor()}, nil)
			if err == nil && len(got) == 0 {
				return workspaces.ErrLost
			}
			return err
		},
		want: map[string]want{"ready": {"claimed", "", ""}},
	}, {
		name: "claimed, without skipping",
		do: func(ctx context.Context, b *bench, _ workspaces.Lease) error {
			_, err := b.writer.ClaimLast(ctx, b.claimFor())
			return err
		},
		want: map[string]want{"ready": {"claimed", "", ""}},
	}, {
		name: "claimed by a job",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.ClaimForJob(ctx, l.WorkspaceID, l.Incarnation, uuid.Nil, "claimed by job build")
			return err
		},
		want: map[string]want{"ready": {"claimed", "", ""}},
	}, {
		name: "stopped for standby",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Stop(ctx, b.Store, l.WorkspaceID, l.Incarnation, "more run")
			return err
		},
		want: map[string]want{"ready": {"standby", "", "stop"}},
	}, {
		name: "started",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Start(ctx, b.Store, l.WorkspaceID, l.Incarnation, "fewer run")
			return err
		},
		want: map[string]want{
			"standby": {"starting", "", "start"}, "standby, being stopped": {"starting", "cancelled", "start"},
		},
	}, {
		name: "claimed, out of standby",
		do: func(ctx context.Context, b *bench, _ workspaces.Lease) error {
			_, err := b.writer.ClaimStandby(ctx, b.claimFor())
			return err
		},
		want: map[string]want{
			"standby": {"claimed", "", "start"}, "standby, being stopped": {"claimed", "cancelled", "start"},
		},
	}, {
		name: "started out of standby", leased: "start",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error { return b.writer.Started(ctx, l) },
		want: map[string]want{
			"starting, out of standby": {"starting", "done", "probe"}, "claimed, out of standby": {"claimed", "done", "probe"},
		},
	}, {
		name: "started for its claim", leased: "probe",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.ClaimStarted(ctx, l, facts)
			return err
		},
		want: map[string]want{"claimed, and started": {"claimed", "done", ""}},
	}, {
		name: "not started", leased: "start",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.ClaimNotStarted(ctx, l, "start: no room")
			return err
		},
		want: map[string]want{
			"claimed, out of standby": {"claimed", "failed", ""}, "claimed, and started": {"claimed", "failed", ""},
			"claimed, being handed over": {"claimed", "failed", ""},
		},
	}, {
		name: "to be handed over",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			n, err := b.writer.BeginHandovers(ctx, []string{"sim"}, l.WorkspaceID)
			if err == nil && n == 0 {
				return workspaces.ErrLost
			}
			return err
		},
		want: map[string]want{"claimed": {"claimed", "", "handover"}},
	}, {
		name: "handed over", leased: "handover",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.HandedOver(ctx, l, facts)
			return err
		},
		want: map[string]want{"claimed, being handed over": {"claimed", "done", ""}},
	}, {
		name: "started again",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			return b.writer.StartAgain(ctx, l.WorkspaceID, l.Incarnation, "stopped too late")
		},
		want: map[string]want{
			"claimed": {"claimed", "", "start"}, "claimed, out of standby": {"claimed", "cancelled", "start"},
			"claimed, and started": {"claimed", "cancelled", "start"}, "claimed, being handed over": {"claimed", "cancelled", "start"},
			"claimed, not handed over": {"claimed", "failed", "start"},
		},
	}, {
		name: "released", do: release,
		want: map[string]want{
			"claimed": {"draining", "", "drain"}, "claimed, out of standby": {"draining", "cancelled", "drain"},
			"claimed, and started": {"draining", "cancelled", "drain"}, "claimed, being handed over": {"draining", "cancelled", "drain"},
			"claimed, not handed over": {"draining", "failed", "drain"},
		},
	}, {
		name: "released, reusable", reuses: true, do: release,
		want: map[string]want{
			"claimed": {"starting", "", "reset"}, "claimed, out of standby": {"starting", "cancelled", "reset"},
			"claimed, and started": {"starting", "cancelled", "reset"}, "claimed, being handed over": {"starting", "cancelled", "reset"},
			"claimed, not handed over": {"starting", "failed", "reset"},
		},
	}, {
		name: "reset", leased: "reset",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Reset(ctx, l, facts)
			return err
		},
		want: map[string]want{"starting, being reset": {"starting", "done", "probe"}},
	}, {
		name: "reset failed", leased: "reset", keeps: true,
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.ResetFailed(ctx, l, "reset: disk on fire")
			return err
		},
		want: map[string]want{"starting, being reset": {"deleting", "failed", "delete"}},
	}, {
		name: "retried",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.Retry(ctx, b.person(), l.WorkspaceID)
			return err
		},
		want: map[string]want{
			"quarantined": {"starting", "", "probe"}, "quarantined, never made": {"provisioning", "", "create"},
			"claimed, not handed over": {"claimed", "failed", "handover"},
		},
	}, {
		name: "kept by a person",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			a := b.person()
			a.Incarnation = l.Incarnation
			_, err := b.writer.Keep(ctx, a, l.WorkspaceID, time.Hour)
			return err
		},
		want: map[string]want{
			"starting": {"quarantined", "cancelled", ""}, "ready": {"quarantined", "", ""}, "standby": {"quarantined", "", ""},
			"starting, out of standby": {"quarantined", "cancelled", ""}, "standby, being stopped": {"quarantined", "cancelled", ""},
			"quarantined": {"quarantined", "", ""}, "quarantined, never made": {"quarantined", "", ""},
		},
	}, {
		name: "kept long enough",
		do: func(ctx context.Context, b *bench, l workspaces.Lease) error {
			_, err := b.writer.EndQuarantine(ctx, l.WorkspaceID, l.Incarnation)
			return err
		},
		want: map[string]want{
			"quarantined": {"draining", "", "drain"}, "quarantined, never made": {"draining", "", "drain"},
		},
	}, {
		name: "deleted by a person", do: remove(false), want: deletions,
	}, {
		name: "deleted by force", do: remove(true), want: deletions, // what goes already keeps its state: see below
	},
}

var deletions = map[string]want{
	"provisioning": {"deleting", "cancelled", "delete"}, "provisioning, never leased": {"deleted", "cancelled", ""},
	"starting": {"draining", "cancelled", "drain"}, "starting, being reset": {"draining", "cancelled", "drain"},
	"ready": {"draining", "", "drain"}, "standby": {"draining", "", "drain"}, "claimed": {"draining", "", "drain"},
	"starting, out of standby": {"draining", "cancelled", "drain"}, "standby, being stopped": {"draining", "cancelled", "drain"},
	"claimed, out of standby": {"draining", "cancelled", "drain"}, "claimed, and started": {"draining", "cancelled", "drain"},
	"claimed, being handed over": {"draining", "cancelled", "drain"}, "claimed, not handed over": {"draining", "failed", "drain"},
	"quarantined": {"draining", "", "drain"}, "quarantined, never made": {"draining", "", "drain"},
}

// Every event in every situation, on PostgreSQL: where the table of docs/STATE_MACHINE.md has a row, exactly that is done,
// with the job and the row of history in the same transaction; everywhere else nothing is changed.
func TestTransitions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	made := map[[2]string]bool{}
	for _, e := range events {
		for _, s := range situations {
			name := e.name + " when " + s.name
			w, allowed := e.want[s.name]
			elsewhen := slices.ContainsFunc(situations, func(o situation) bool {
				_, allowed := e.want[o.name]
				return allowed && o.state == s.state
			})
			if s.job == "" && !allowed && !elsewhen { // so that it is the state alone that stands in the way
				s.job = e.leased
			}
			b.put(s, e.keeps, e.reuses)
			before, held := b.dump(), b.look()
			if !allowed {
				if e.name == "deleted by force" && (s.state == "draining" || s.state == "deleting") {
					continue // TestForceOfWhatGoes
				}
				require.Error(t, e.do(ctx, b, b.ws), name)
				require.Equal(t, before, b.dump(), name)
				continue
			}
			for what, l := range stale(b.ws, e) {
				require.Error(t, e.do(ctx, b, l), "%s, %s", name, what)
				require.Equal(t, before, b.dump(), "%s, %s", name, what)
			}
			require.NoError(t, e.do(ctx, b, b.ws), name)
			got := b.look()
			require.Equal(t, string(w.to), got.State, name)
			require.True(t, prebuilds.CanMove(prebuilds.State(s.state), prebuilds.State(w.to)), name)
			made[[2]string{string(s.state), got.State}] = true
			require.Equal(t, []string{fmt.Sprintf("%s -> %s", s.state, w.to)}, got.History, name)
			require.Equal(t, w.oldJob, got.OldJob, name)
			jobs := []string{}
			if w.nextJob != "" {
				jobs = append(jobs, w.nextJob)
			}
			require.Equal(t, jobs, got.Jobs, name)
			require.True(t, got.Same, "%s: one transaction", name)
			b.effects(t, name, e, s, held, got)
		}
	}
	for _, row := range prebuilds.Transitions {
		require.True(t, made[[2]string{string(row.From), string(row.To)}] || slices.Contains(elsewhere, row.Event),
			"no event here leads from %q to %q: %s", row.From, row.To, row.Event)
	}
}

// elsewhere are the events that no call of the table above makes: those of a job alone, new workspaces, and what is still
// to come. Their tests are with who makes them.
var elsewhere = []string{
	"planned", "create failed, retryable", "delete failed", "busy veto", "silent, unhealthy or missing", "missing",
	"tagged resource seen without a row", "tagged resource seen",
}

// stale are leases that are no longer good: of another incarnation, attempt or job.
func stale(l workspaces.Lease, e event) map[string]workspaces.Lease {
	leases := map[string]workspaces.Lease{}
	if e.leased != "" {
		later, other := l, l
		later.Attempt++
		other.JobID = uuid.New()
		leases["of another attempt"], leases["of another job"] = later, other
	}
	if !slices.Contains([]string{"claimed", "claimed, without skipping", "claimed, out of standby", "retried", "to be handed over"}, e.name) {
		old := l
		old.Incarnation++
		leases["of another incarnation"] = old
	}
	return leases
}

// effects checks what goes with some transitions beside state, job and history.
func (b *bench) effects(t *testing.T, name string, e event, s situation, before, got after) {
	t.Helper()
	streak, log, incarnation := 0, "", before.Incarnation
	switch e.name {
	case "failed", "failed, kept":
		streak, log = 1, "the end"
	case "released, reusable":
		incarnation++
	}
	require.Equal(t, streak, got.Streak, name)
	require.Equal(t, log, got.Log, name)
	require.Equal(t, incarnation, got.Incarnation, name)
	switch {
	case s.state == "claimed" && got.State == "claimed":
		require.Equal(t, []string{"bound"}, got.Claims, name)
	case s.state == "claimed":
		require.Equal(t, []string{"released"}, got.Claims, name)
	case got.State == "claimed":
		require.Equal(t, []string{"bound"}, got.Claims, name)
		require.NotNil(t, got.Claim, name)
	default:
		require.Empty(t, got.Claims, name)
	}
	if e.name == "released, reusable" {
		require.Nil(t, got.Claim, "nothing of the claim before is left")
	}
}

// Force on what goes already: the job loses its lease and its backoff, and ends whatever the provider says (G5).
func TestForceOfWhatGoes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, s := range situations {
		if s.state != "draining" && s.state != "deleting" {
			continue
		}
		b.put(s, false, false)
		require.NoError(t, remove(true)(context.Background(), b, b.ws))
		got := b.look()
		require.Equal(t, string(s.state), got.State)
		require.Equal(t, "pending", got.OldJob)
		require.Empty(t, got.History)
		var forced bool
		require.NoError(t, b.Store.Pool.QueryRow(context.Background(), "SELECT force FROM jobs").Scan(&forced))
		require.True(t, forced)
	}
}

// In a database that was put back from a backup all that was unclaimed is kept, whatever was done with it, and named to who restores.
// All else stays as it is.
func TestRestored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, s := range situations {
		b.put(s, false, false)
		before, held := b.dump(), b.look()
		names, err := b.writer.Restored(t.Context(), b.Store, "restored")
		require.NoError(t, err, s.name)
		if !slices.Contains([]database.WorkspaceState{"provisioning", "starting", "ready", "standby"}, s.state) {
			require.Empty(t, names, s.name)
			require.Equal(t, before, b.dump(), s.name)
			continue
		}
		require.Equal(t, []string{"w-" + b.ws.WorkspaceID.String()}, names, s.name)
		got := b.look()
		require.Equal(t, "quarantined", got.State, s.name)
		require.Equal(t, []string{string(s.state) + " -> quarantined"}, got.History, s.name)
		require.NotContains(t, []string{"pending", "running"}, got.OldJob, s.name)
		require.Empty(t, got.Jobs, s.name)
		require.True(t, got.Same, "%s: one transaction", s.name)
		b.effects(t, s.name, event{name: "restored"}, s, held, got)
	}
}
