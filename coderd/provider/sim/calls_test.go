package sim

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// What is kept of workspaces that are gone is bounded, however many there were.
func TestCalls_bounded(t *testing.T) {
	t.Parallel()
	p, err := New(Options{})
	require.NoError(t, err)
	for i := range 3 * someCalls {
		p.dice(fmt.Sprintf("prebuild-%d", i), "create")
		require.LessOrEqual(t, len(p.calls.lately)+len(p.calls.before), 2*someCalls)
	}
}

// A name that is called again and again is counted on, whatever else is called meanwhile: what fails by chance does not fail
// each time it is repeated.
func TestCalls_counted(t *testing.T) {
	t.Parallel()
	var c calls
	for n := range 5 {
		require.EqualValues(t, n+1, c.count(0))
		for other := range someCalls - 1 {
			c.count(uint64(1 + n*someCalls + other))
		}
	}
	require.EqualValues(t, 1, c.count(1), "one that was not for long begins again")
}

// The journal on disk is bounded too: it keeps the newest part.
func TestJournal_bounded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p, err := New(Options{Root: root})
	require.NoError(t, err)
	s := p.store.(*fileStore)
	s.most = 10_000
	ctx, installation := context.Background(), uuid.New()
	var last provider.Instance
	for i := range 200 {
		last, err = p.Create(ctx, provider.CreateRequest{
			Name: fmt.Sprintf("prebuild-%d", i), Tags: provider.Tags{Installation: installation, WorkspaceID: uuid.New()},
		})
		require.NoError(t, err)
		require.NoError(t, p.Delete(ctx, provider.Ref{Name: last.Name}))
	}
	kept := int64(0)
	for _, name := range []string{"journal", "journal.before"} {
		info, err := os.Stat(s.path(name))
		require.NoError(t, err)
		kept += info.Size()
	}
	require.Less(t, kept, 2*s.most+1000)
	events, err := p.History()
	require.NoError(t, err)
	require.Greater(t, len(events), 40, "at least half of what may be kept")
	require.Equal(t, Event{
		Deleted: true, ProviderID: last.ProviderID, Name: last.Name, WorkspaceID: last.Tags.WorkspaceID,
	}, events[len(events)-1])
}
