package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/userstest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// S6: two installations of the same templates churn on one engine, by claims, releases and new versions. Neither asks the
// engine for what is the other's, deletes it, lists it or has it in any table.
func TestInstallations(t *testing.T) {
	t.Parallel()
	r := random(t)
	versions, thorough := rounds(t, 4)
	if thorough {
		versions = min(versions/4, 50)
	}
	engine := dockertest.Start(t)
	engine.Image(t)
	type side struct {
		*installation
		wire    *wire
		seen    map[string]bool // ids of its containers
		users   []*userstest.User
		counted *userstest.Tally
		stop    func()
	}
	sides := make([]*side, 2)
	nothing := map[string]bool{}
	for i := range sides {
		s := &side{installation: newInstallation(t, engine, false), wire: newWire(t, engine), seen: map[string]bool{}}
		s.host = s.wire.host
		s.start()
		s.pools(1, 4, 2)
		sides[i] = s
	}
	for _, s := range sides {
		eventually(t, "the pools fill", patience, func() string { return s.unsettled(nothing, nil) })
		s.users, s.counted, s.stop = userstest.Start(t, userstest.Options{
			Clients: []*sdk.Client{s.client()}, Random: r, Every: 250 * time.Millisecond, Asks: asks,
		})
	}
	look := func() { // at the engine's own listing, of all containers
		all, err := engine.Client.ContainerList(t.Context(), client.ContainerListOptions{All: true})
		require.NoError(t, err)
		for _, c := range all.Items {
			owners := 0
			for _, s := range sides {
				if c.Labels[labelInstallation] == s.id.String() {
					s.seen[c.ID] = true
					owners++
				}
			}
			assert.Equal(t, 1, owners, "container %s is of one of them", c.ID)
		}
	}
	for version := range versions {
		for until := time.Now().Add(2500 * time.Millisecond); time.Now().Before(until); {
			look()
			time.Sleep(100 * time.Millisecond)
		}
		sides[version%2].pools(version+2, 4, 2)
	}
	for _, s := range sides {
		s.stop()
	}
	for _, s := range sides {
		eventually(t, "the pools are full in the end", patience, func() string { look(); return s.unsettled(nothing, nil) })
	}
	for i, s := range sides {
		other := sides[1-i]
		require.Positive(t, s.counted.Releases.Load(), "nobody released anything")
		own := map[string]bool{}
		for _, row := range s.rows() {
			own[row.ProviderID] = true
		}
		eventually(t, "there is an inventory since all work was done", patience, func() string {
			all, err := s.client().Inventories(context.Background(), "docker")
			require.NoError(t, err)
			for _, e := range all[0].Entries {
				if e.Verdict == "making" || e.Verdict == "going" {
					return fmt.Sprintf("%+v", e)
				}
				assert.Equal(t, "ok", e.Verdict, "%+v", e)
				assert.True(t, own[e.ProviderID] && !other.seen[e.ProviderID], "the inventory lists %+v", e)
			}
			return ""
		})
		for _, u := range s.users {
			for _, h := range u.Holds {
				is, err := engine.Client.ContainerInspect(t.Context(), h.ProviderID, client.ContainerInspectOptions{})
				if assert.NoError(t, err, "what a user holds is there") {
					assert.Equal(t, h.ID.String(), is.Container.Config.Labels[labelWorkspace])
				}
			}
		}
		for what, query := range map[string]string{
			"something was missing":         "SELECT count(*) FROM workspace_history WHERE to_state = 'quarantined'",
			"something claimed was missing": "SELECT count(*) FROM audit_log WHERE action = 'workspace.missing'",
			"an orphan was deleted":         "SELECT count(*) FROM audit_log WHERE action = 'provider.delete-orphan'",
			"a breaker opened":              "SELECT count(*) FROM audit_log WHERE action = 'provider.breaker-open'",
		} {
			assert.Zero(t, s.number(query), what)
		}
		assert.Zero(t, s.mentions(other.seen), "rows that mention a container of the other's")
		assert.Positive(t, s.mentions(s.seen), "rows that mention its own")
		asked := strings.Join(s.wire.all(), "\n")
		for id := range other.seen {
			assert.NotContains(t, asked, id, "it asked the engine for a container of the other's")
		}
		for _, row := range other.rows() {
			assert.NotContains(t, asked, row.Name, "it asked the engine for a workspace of the other's")
		}
		t.Logf("installation %d: %d containers seen, %d workspaces made, %d claims, %d releases, %d requests to the engine; "+
			"%d rows mention its containers, none the other's %d", i+1, len(s.seen), len(s.rows()), s.counted.Hits.Load(),
			s.counted.Releases.Load(), len(s.wire.all()), s.mentions(s.seen), len(other.seen))
	}
}

// mentions counts the rows, of all tables, that have one of these ids in any column.
func (in *installation) mentions(ids map[string]bool) (n int) {
	in.t.Helper()
	rows, err := in.store.Pool.Query(context.Background(),
		"SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'")
	require.NoError(in.t, err)
	var tables []string
	for rows.Next() {
		var table string
		require.NoError(in.t, rows.Scan(&table))
		tables = append(tables, table)
	}
	require.NoError(in.t, rows.Err())
	require.Greater(in.t, len(tables), 10)
	for _, table := range tables {
		n += in.number(fmt.Sprintf("SELECT count(*) FROM %s t WHERE t::text ~ $1", table), strings.Join(slices.Sorted(maps.Keys(ids)), "|"))
	}
	return n
}
