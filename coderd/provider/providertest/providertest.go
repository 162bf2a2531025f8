// Package providertest is the contract of package provider as a test: every provider runs it, so that whatever drives
// providers can rely on it for each of them.
//
// The suite asks only what the interface shows. What a provider must do beyond that, such as leaving no process behind,
// it tests itself.
package providertest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Harness is a provider to be tested, with nothing of the test's own in it.
type Harness struct {
	Provider provider.Provider
	// Other reaches the same resources, as another replica does. It may be Provider itself.
	Other provider.Provider
	// Spec and Parameters make a workspace that becomes ready within seconds.
	Spec       json.RawMessage
	Parameters map[string]string
	// Garbage are specs that Validate must refuse, by the path that is wrong. Create must refuse them for good.
	Garbage map[string]json.RawMessage
}

// deadline is how long anything may take before it counts as stuck.
const deadline = 30 * time.Second

// Run runs the suite; each part has a harness of its own.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	parts := []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"CreateTwiceIsOne", createTwice},
		{"CreateWithOtherTagsConflicts", createConflict},
		{"GetByNameAndByID", get},
		{"GetUnknown", getUnknown},
		{"AnotherWorkspaceIsNotMeant", anotherWorkspace},
		{"ListIsByInstallation", list},
		{"DeleteTwice", deleteTwice},
		{"DeleteUnknown", deleteUnknown},
		{"BecomesReady", becomesReady},
		{"EndedContext", endedContext},
		{"ManyNamesAtOnce", manyNames},
		{"OneNameAtOnce", oneName},
		{"CutOffCreateIsCompleted", cutOffCreate},
		{"DeleteDuringCreate", deleteDuringCreate},
		{"GarbageIsRefused", garbage},
		{"BadNamesAreRefused", badNames},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			h := newHarness(t)
			if h.Other == nil {
				h.Other = h.Provider
			}
			s := &suite{Harness: h, installation: uuid.New()}
			t.Cleanup(func() { s.deleteAll(t) })
			part.run(t, s)
		})
	}
}

type suite struct {
	Harness
	installation uuid.UUID
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func (s *suite) request(name string) provider.CreateRequest {
	return provider.CreateRequest{
		Name:         name,
		Tags:         provider.Tags{Installation: s.installation, WorkspaceID: uuid.New(), Incarnation: 1},
		Organization: "default", Template: "template", Preset: "preset",
		Spec: s.Spec, Parameters: s.Parameters,
	}
}

func (s *suite) create(t *testing.T, name string) (provider.CreateRequest, provider.Instance) {
	t.Helper()
	req := s.request(name)
	i, err := s.Provider.Create(testContext(t), req)
	require.NoError(t, err)
	return req, i
}

func (s *suite) list(t *testing.T) []provider.Instance {
	t.Helper()
	all, err := s.Other.List(testContext(t), s.installation)
	require.NoError(t, err)
	return all
}

func (s *suite) names(t *testing.T) []string {
	t.Helper()
	names := []string{}
	for _, i := range s.list(t) {
		names = append(names, i.Name)
	}
	return names
}

// deleteAll leaves nothing for the next part, and fails if something cannot be deleted.
func (s *suite) deleteAll(t *testing.T) {
	t.Helper()
	for _, i := range s.list(t) {
		require.NoError(t, s.Provider.Delete(testContext(t), ref(i)))
	}
	require.Empty(t, s.names(t))
}

func ref(i provider.Instance) provider.Ref {
	return provider.Ref{Name: i.Name, ProviderID: i.ProviderID, WorkspaceID: i.Tags.WorkspaceID}
}
