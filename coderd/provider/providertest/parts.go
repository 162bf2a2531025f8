package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

func createTwice(t *testing.T, s *suite) {
	req, first := s.create(t, "twice")
	second, err := s.Other.Create(testContext(t), req)
	require.NoError(t, err)
	assert.Equal(t, first.ProviderID, second.ProviderID)
	assert.Equal(t, req.Tags, second.Tags)
	assert.WithinDuration(t, first.CreatedAt, second.CreatedAt, 0)
	assert.Equal(t, []string{"twice"}, s.names(t))
}

func createConflict(t *testing.T, s *suite) {
	_, first := s.create(t, "taken")
	other := s.request("taken")
	_, err := s.Provider.Create(testContext(t), other)
	require.ErrorIs(t, err, provider.ErrConflict)
	assert.True(t, provider.IsPermanent(err))

	// A worker then cleans up after its workspace by name. That must not hit the one that was there.
	require.NoError(t, s.Provider.Delete(testContext(t),
		provider.Ref{Name: "taken", WorkspaceID: other.Tags.WorkspaceID}))
	there, err := s.Other.Get(testContext(t), ref(first))
	require.NoError(t, err)
	assert.Equal(t, first.Tags, there.Tags)
	assert.Equal(t, provider.StatusRunning, there.Status)
}

func get(t *testing.T, s *suite) {
	req, made := s.create(t, "found")
	assert.NotEmpty(t, made.ProviderID)
	for _, ref := range []provider.Ref{{Name: "found"}, {ProviderID: made.ProviderID}, ref(made)} {
		i, err := s.Other.Get(testContext(t), ref)
		require.NoError(t, err, "%+v", ref)
		assert.Equal(t, req.Tags, i.Tags)
		assert.Equal(t, "found", i.Name)
		assert.Equal(t, made.ProviderID, i.ProviderID)
		assert.Equal(t, provider.StatusRunning, i.Status)
		assert.Equal(t, made.Addresses, i.Addresses)
		assert.Equal(t, made.Environment, i.Environment)
		assert.False(t, i.CreatedAt.IsZero())
	}
}

func getUnknown(t *testing.T, s *suite) {
	unknown := provider.Ref{Name: "unknown"}
	_, err := s.Provider.Get(testContext(t), unknown)
	require.ErrorIs(t, err, provider.ErrNotFound)
	_, err = s.Provider.Ready(testContext(t), unknown)
	require.ErrorIs(t, err, provider.ErrNotFound)
}

func anotherWorkspace(t *testing.T, s *suite) {
	s.create(t, "mine")
	other := provider.Ref{Name: "mine", WorkspaceID: uuid.New()}
	_, err := s.Provider.Get(testContext(t), other)
	require.ErrorIs(t, err, provider.ErrNotFound)
	_, err = s.Provider.Ready(testContext(t), other)
	require.ErrorIs(t, err, provider.ErrNotFound)
	require.NoError(t, s.Provider.Delete(testContext(t), other))
	assert.Equal(t, []string{"mine"}, s.names(t))
}

func list(t *testing.T, s *suite) {
	foreign := &suite{Harness: s.Harness, installation: uuid.New()}
	t.Cleanup(func() { foreign.deleteAll(t) })
	assert.Empty(t, s.names(t))
	s.create(t, "one")
	s.create(t, "two")
	foreign.create(t, "three")
	assert.ElementsMatch(t, []string{"one", "two"}, s.names(t))
	assert.Equal(t, []string{"three"}, foreign.names(t))
	for _, i := range s.list(t) {
		alone, err := s.Provider.Get(testContext(t), ref(i))
		require.NoError(t, err)
		assert.Equal(t, alone, i)
	}
}

func deleteTwice(t *testing.T, s *suite) {
	_, i := s.create(t, "gone")
	require.NoError(t, s.Other.Delete(testContext(t), ref(i)))
	require.NoError(t, s.Provider.Delete(testContext(t), ref(i)))
	_, err := s.Provider.Get(testContext(t), ref(i))
	require.ErrorIs(t, err, provider.ErrNotFound)
	assert.Empty(t, s.names(t))

	_, i = s.create(t, "gone-at-once")
	each(5, func(int) { assert.NoError(t, s.Provider.Delete(testContext(t), ref(i))) })
	assert.Empty(t, s.names(t))
}

func deleteUnknown(t *testing.T, s *suite) {
	require.NoError(t, s.Provider.Delete(testContext(t), provider.Ref{Name: "unknown"}))
	require.NoError(t, s.Provider.Delete(testContext(t), provider.Ref{Name: "unknown", WorkspaceID: uuid.New()}))
}

func becomesReady(t *testing.T, s *suite) {
	_, i := s.create(t, "soon")
	var last provider.Readiness
	require.Eventually(t, func() bool {
		var err error
		last, err = s.Other.Ready(testContext(t), ref(i))
		return assert.NoError(t, err) && (last.Ready || last.Failed)
	}, deadline, 20*time.Millisecond)
	assert.True(t, last.Ready, "%+v", last)
	assert.False(t, last.Failed, "%+v", last)
}

func endedContext(t *testing.T, s *suite) {
	_, there := s.create(t, "there")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Provider.Create(ctx, s.request("never"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Provider.Get(ctx, ref(there))
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Provider.Ready(ctx, ref(there))
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Provider.List(ctx, s.installation)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Provider.Delete(ctx, ref(there)), context.Canceled)
	assert.Equal(t, []string{"there"}, s.names(t))
}

func manyNames(t *testing.T, s *suite) {
	var want []string
	for n := range 20 {
		want = append(want, fmt.Sprintf("many-%d", n))
	}
	each(len(want), func(n int) {
		_, err := s.one(n).Create(testContext(t), s.request(want[n]))
		assert.NoError(t, err)
	})
	assert.ElementsMatch(t, want, s.names(t))
	all := s.list(t)
	each(len(all), func(n int) { assert.NoError(t, s.one(n).Delete(testContext(t), ref(all[n]))) })
	assert.Empty(t, s.names(t))
}

func oneName(t *testing.T, s *suite) {
	req := s.request("one")
	ids := make([]string, 20)
	each(len(ids), func(n int) {
		i, err := s.one(n).Create(testContext(t), req)
		assert.NoError(t, err)
		ids[n] = i.ProviderID
	})
	assert.Len(t, slices.Compact(ids), 1)
	assert.Equal(t, []string{"one"}, s.names(t))
}

// cutOffCreate ends the context of a create at any point, and then does what a worker does: the same again.
func cutOffCreate(t *testing.T, s *suite) {
	for round := range 15 {
		req := s.request(fmt.Sprintf("cut-%d", round))
		moment := rand.N(15 * time.Millisecond) //nolint:gosec // any will do
		ctx, cancel := context.WithTimeout(context.Background(), moment)
		_, _ = s.Provider.Create(ctx, req)
		cancel()
		i, err := s.Other.Create(testContext(t), req)
		require.NoError(t, err)
		require.Equal(t, provider.StatusRunning, i.Status, "%+v", i)
		require.Equal(t, []string{req.Name}, s.names(t))
		require.NoError(t, s.Other.Delete(testContext(t), ref(i)))
		require.Empty(t, s.names(t))
	}
}

// deleteDuringCreate gives a create up, as a worker whose lease ends does, and deletes by name before it has returned.
// What an interrupted create still made may come after that delete, but it is found under its name and no other.
func deleteDuringCreate(t *testing.T, s *suite) {
	for round := range 15 {
		req := s.request(fmt.Sprintf("race-%d", round))
		ctx, cancel := context.WithCancel(context.Background())
		var creating sync.WaitGroup
		creating.Go(func() { _, _ = s.Provider.Create(ctx, req) })
		giveUp := time.NewTimer(rand.N(15 * time.Millisecond)) //nolint:gosec // any moment will do
		<-giveUp.C
		cancel()
		byName := provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID}
		require.NoError(t, s.Other.Delete(testContext(t), byName))
		creating.Wait()
		require.NoError(t, s.Other.Delete(testContext(t), byName))
		require.Empty(t, s.names(t))
	}
}

func garbage(t *testing.T, s *suite) {
	require.Empty(t, s.Provider.Validate(s.Spec, s.Parameters))
	all := maps.Clone(s.Garbage)
	all[""] = json.RawMessage(`["not", "a", "mapping"]`)
	for path, spec := range all {
		var paths []string
		for _, p := range s.Provider.Validate(spec, s.Parameters) {
			paths = append(paths, p.Path)
			assert.NotEmpty(t, p.Message)
		}
		assert.Contains(t, paths, path, "%s", spec)
		req := s.request("garbage")
		req.Spec = spec
		_, err := s.Provider.Create(testContext(t), req)
		require.Error(t, err, "%s", spec)
		assert.True(t, provider.IsPermanent(err), "%s: %v", spec, err)
	}
	assert.Empty(t, s.names(t))
}

func badNames(t *testing.T, s *suite) {
	for _, name := range []string{"", ".", "..", "a/b", "../a", "/etc", "A", "a\x00b", ".prewarm", "a b"} {
		_, err := s.Provider.Create(testContext(t), s.request(name))
		require.Error(t, err, "%q", name)
		assert.True(t, provider.IsPermanent(err), "%q: %v", name, err)
	}
	assert.Empty(t, s.names(t))
}

// one is Provider or Other in turn.
func (s *suite) one(n int) provider.Provider {
	if n%2 == 0 {
		return s.Provider
	}
	return s.Other
}

// each runs f n times at once.
func each(n int, f func(n int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
