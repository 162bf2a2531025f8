package runners_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// overHTTP is a client of a forge, and a directory that has but that one.
type overHTTP struct{ client forge.Forge }

func (o overHTTP) Forge(context.Context, uuid.UUID) (forge.Forge, error) { return o.client, nil }

// pair is two replicas with clients of their own of one forge, over HTTP.
type pair struct {
	*world
	forge       *forgetest.Forge
	one, two    *runners.Service
	configures  func(s *runners.Service, it ws) error
	unregisters func(s *runners.Service, it ws) (runners.Verdict, error)
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{world: newWorld(t, 1)}
	var err error
	p.forge, err = forgetest.Start(t.Context(), forgetest.Options{Groups: map[string]int64{"g": 7}})
	require.NoError(t, err)
	t.Cleanup(p.forge.Close)
	replica := func(name string) *runners.Service {
		client, err := github.Kind.Connect(forge.Connection{
			URL: p.forge.API, Scope: forge.Organization, Path: "acme", Token: "secret-token",
		})
		require.NoError(t, err)
		return runners.New(runners.Options{
			Store: p.Store, Writer: p.writer, Directory: overHTTP{client}, Clock: quartz.NewReal(), Log: slog.Make(),
			Registerer: prometheus.NewRegistry(), Replica: name, Hints: p.hints,
			Pace: runners.Pace{Backoff: time.Hour}, // so that the first pause is a minute
		})
	}
	p.one, p.two = replica("one"), replica("two")
	p.configures = func(s *runners.Service, it ws) error {
		_, err := s.Configuration(t.Context(), it.id, 1)
		return err
	}
	p.unregisters = func(s *runners.Service, it ws) (runners.Verdict, error) { return s.Deregister(t.Context(), it.id, 1) }
	return p
}

// over ends the backoff.
func (p *pair) over() { p.exec("UPDATE forge_status SET runners_wait_until = now()") }

// P8: an error of the forge as a whole, when a runner is registered, unregistered or listed, has all replicas leave it alone for a
// while, or until it said: no runner of that entity is registered or unregistered, and each of them says why.
func TestLeftAlone_byAllReplicas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unwell func(p *pair) // has the forge fail
		ask    func(p *pair, first, going ws) error
		cause  string
		until  time.Duration
	}{
		"registered": {
			unwell: func(p *pair) { p.forge.SetFaults(forgetest.Faults{Errors: 1}) },
			ask:    func(p *pair, first, _ ws) error { return p.configures(p.one, first) }, cause: "status 502", until: time.Minute,
		},
		"unregistered": {
			unwell: func(p *pair) { p.forge.SetFaults(forgetest.Faults{Errors: 1}) },
			ask:    func(p *pair, _, going ws) error { _, err := p.unregisters(p.one, going); return err }, cause: "status 502", until: time.Minute,
		},
		"listed": {
			unwell: func(p *pair) { p.forge.SetFaults(forgetest.Faults{Errors: 1}) },
			ask:    func(p *pair, _, _ ws) error { _ = p.one.Rounds(context.Background()); return errors.New("recorded") }, cause: "status 502", until: time.Minute,
		},
		"asked too much": {
			unwell: func(p *pair) { p.forge.LimitFor(time.Hour) },
			ask:    func(p *pair, first, _ ws) error { return p.configures(p.one, first) }, cause: "rate limit", until: time.Hour,
		},
		"out of reach": {
			unwell: func(p *pair) { p.forge.Close() },
			ask:    func(p *pair, first, _ ws) error { return p.configures(p.one, first) }, cause: "connect", until: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			first, second, going := p.waiting("starting"), p.waiting("starting"), p.put("draining", workspaces.Prewarm)
			c.unwell(p)
			for range 3 { // fewer may be sporadic
				require.Error(t, c.ask(p, first, going))
				p.exec("UPDATE forge_status SET wait_until = NULL, asked_at = NULL")
			}
			asked := p.forge.Requests("")
			for _, s := range []*runners.Service{p.two, p.one} {
				for _, it := range []ws{first, second} {
					var alone *runners.LeftAlone
					require.ErrorAs(t, p.configures(s, it), &alone)
					require.Contains(t, alone.Cause, c.cause)
					require.InDelta(t, c.until.Seconds(), time.Until(alone.Until).Seconds(), 30)
				}
				v, err := p.unregisters(s, going)
				require.NoError(t, err)
				require.False(t, v.Done || v.Busy)
				require.Contains(t, v.Why, "the forge is left alone until ")
				require.Contains(t, v.Why, c.cause)
				require.InDelta(t, c.until.Seconds(), v.Wait.Seconds(), 30)
			}
			require.Equal(t, asked, p.forge.Requests(""), "the forge was asked meanwhile")
			require.Equal(t, "0", p.text("SELECT count(*) FROM forge_runners WHERE asking_until IS NOT NULL"), "nobody has the right to ask")
			if name == "out of reach" || name == "asked too much" {
				return
			}
			p.forge.SetFaults(forgetest.Faults{})
			p.over()
			require.NoError(t, p.configures(p.two, second))
			v, err := p.unregisters(p.two, going)
			require.NoError(t, err)
			require.True(t, v.Done)
			require.Greater(t, p.forge.Requests(""), asked)
		})
	}
}

// An error that is one runner's own keeps no other: there is none of its number, it has a job, its group is not there; and neither
// does that somebody stopped waiting.
func TestLeftAlone_notForOnesOwn(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	alone := func() string { return p.text("SELECT count(*) FROM forge_status WHERE runners_wait_until IS NOT NULL") }

	unknown := p.put("draining", workspaces.Prewarm)
	p.exec("UPDATE forge_runners SET runner_id = 77 WHERE workspace_id = $1", unknown.id)
	v, err := p.unregisters(p.one, unknown) // 404
	require.NoError(t, err)
	require.True(t, v.Done)
	require.Equal(t, "0", alone())

	it := p.waiting("starting")
	p.exec("UPDATE presets SET runner_group = 'none-such'")
	require.ErrorContains(t, p.configures(p.one, it), "has no runner group")
	require.Equal(t, "0", alone())
	p.exec("UPDATE presets SET runner_group = 'g'")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p.forge.SetFaults(forgetest.Faults{Errors: 1})
	_, err = p.one.Configuration(gone, it.id, 1)
	require.Error(t, err)
	require.Equal(t, "0", alone())
	p.forge.SetFaults(forgetest.Faults{})
	require.NoError(t, p.configures(p.two, it))
}

// Of runners left behind one that can't be removed does not keep the others.
func TestLeftAlone_othersAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for range 5 {
		w.cloud.set(w.put("deleted", workspaces.Prewarm).name, forge.Offline)
	}
	w.cloud.stuck = 2
	require.NoError(t, w.service.Rounds(context.Background()))
	require.Len(t, w.cloud.names(), 1)
	require.Equal(t, "1", w.text("SELECT count(*) FROM forge_status WHERE error LIKE '%422%' AND runners_wait_until IS NULL"))
}
