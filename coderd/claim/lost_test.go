package claim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// line is a pool in which nothing gets ready any more, so that its claims wait. One of two is ready, and one is about to expire.
type line struct {
	t *testing.T
	*coderdtest.World
	replica *coderdtest.Replica
	users   map[string]uuid.UUID
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{t: t, World: coderdtest.NewWorld(t, sim.Behavior{}), users: map[string]uuid.UUID{}}
	l.replica = l.Start(t, coderdtest.Config{Tick: time.Hour})
	l.replica.Reconciler.Nudge(l.Pool(t, "go", 2, 1)...)
	coderdtest.Eventually(t, "a pool of two", func() bool { return l.Warm(t, "go") == 2 })
	pauseAll(t, l.World)
	l.exec("UPDATE workspaces SET expires_at = now() WHERE id = (SELECT id FROM workspaces ORDER BY id LIMIT 1)")
	for _, name := range []string{"ann", "bob"} {
		l.users[name] = uuid.New()
		l.exec("INSERT INTO users (id, name, created_at) VALUES ($1, $2, now())", l.users[name], name)
	}
	return l
}

func (l *line) exec(sql string, args ...any) {
	l.t.Helper()
	exec(l.t, l.World, sql, args...)
}

func (l *line) request(user string, wait time.Duration) claim.Request {
	return claim.Request{
		UserID: l.users[user], OrganizationID: auth.DefaultOrganizationID, PresetID: l.Preset(l.t, "go"), Source: "test",
		Mode: database.ClaimModePrefer, Wait: wait,
	}
}

func (l *line) waiting() (users []string) {
	l.t.Helper()
	rows, err := l.Store.Pool.Query(context.Background(), `SELECT u.name FROM claims c JOIN users u ON u.id = c.user_id
		WHERE c.state = 'waiting' ORDER BY c.created_at, c.id`)
	require.NoError(l.t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		require.NoError(l.t, rows.Scan(&name))
		users = append(users, name)
	}
	require.NoError(l.t, rows.Err())
	return users
}

// wait has a user stand in line, and returns where the result of its claim comes.
func (l *line) wait(user string) <-chan claim.Result {
	l.t.Helper()
	before := len(l.waiting())
	served := make(chan claim.Result, 1)
	go func() {
		res, err := l.replica.Claims.Claim(l.t.Context(), l.request(user, time.Hour))
		if err == nil {
			served <- res
		}
	}()
	coderdtest.Eventually(l.t, user+" waits", func() bool { return len(l.waiting()) == before+1 })
	return served
}

// A user whose workspace was taken away right after the claim is served before all who wait, once for each that was lost, and
// also after a wait that came to nothing.
func TestLost(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	first, err := l.replica.Claims.Claim(t.Context(), l.request("ann", 0))
	require.NoError(t, err)
	l.wait("bob")
	require.NoError(t, workspaces.New(l.Store, workspaces.NewID, "test").ClaimLost(t.Context(), first.Workspace.ID, "evicted"))
	l.wait("bob")
	require.Equal(t, []string{"bob", "bob"}, l.waiting(), "the place is that of its user")

	short, err := l.replica.Claims.Claim(t.Context(), l.request("ann", time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeMiss, short.Outcome)
	again := l.wait("ann")
	require.Equal(t, []string{"ann", "bob", "bob"}, l.waiting())
	l.wait("ann")
	require.Equal(t, []string{"ann", "bob", "bob", "ann"}, l.waiting(), "the place is taken")
	l.exec("UPDATE workspaces SET expires_at = NULL")
	second := <-again

	// What is lost again keeps its place.
	require.NoError(t, workspaces.New(l.Store, workspaces.NewID, "test").ClaimLost(t.Context(), second.Workspace.ID, "evicted"))
	l.wait("ann")
	require.Equal(t, []string{"ann", "bob", "bob", "ann"}, l.waiting())
}

// A user is not served first whose workspace was lost later after its claim, or long ago. Neither is a claim with a count, or one in mode
// bypass.
func TestLost_not(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claimed, lost time.Duration // how long ago
		change        func(*claim.Request)
		first         bool
	}{
		"at once":      {claimed: 4 * time.Minute, first: true},
		"later":        {claimed: 6 * time.Minute},
		"an hour ago":  {lost: 61 * time.Minute},
		"several":      {change: func(r *claim.Request) { r.Count = 2 }},
		"one built":    {change: func(r *claim.Request) { r.Mode = database.ClaimModeBypass }},
		"another pool": {change: func(r *claim.Request) { r.PresetID = uuid.New() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			first, err := l.replica.Claims.Claim(t.Context(), l.request("ann", 0))
			require.NoError(t, err)
			l.exec("UPDATE claims SET bound_at = bound_at - $1::interval, created_at = created_at - $1::interval", c.claimed)
			require.NoError(t, workspaces.New(l.Store, workspaces.NewID, "test").ClaimLost(t.Context(), first.Workspace.ID, "evicted"))
			l.exec("UPDATE lost_claims SET lost_at = lost_at - $1::interval", c.lost)
			req := l.request("ann", time.Hour)
			if c.change != nil {
				c.change(&req)
			}
			if req.PresetID != first.Workspace.PresetID {
				l.exec("UPDATE lost_claims SET preset_id = $1", req.PresetID)
				req.PresetID = first.Workspace.PresetID
			}
			l.wait("bob")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _, _ = l.replica.Claims.Claim(ctx, req) }()
			coderdtest.Eventually(t, "both wait", func() bool { return len(l.waiting()) > 1 })
			require.Equal(t, c.first, l.waiting()[0] == "ann")
			cancel()
			<-done
		})
	}
}
