package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/conformance"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

func open(t *testing.T) *sim.Provider {
	t.Helper()
	p, err := sim.New(sim.Options{})
	require.NoError(t, err)
	return p
}

// inUse is a provider with a workspace of the installation, which no check may touch.
func inUse(t *testing.T) (*sim.Provider, provider.CreateRequest) {
	t.Helper()
	p := open(t)
	req := provider.CreateRequest{
		Name: "prebuild-in-use",
		Tags: provider.Tags{Installation: uuid.New(), WorkspaceID: uuid.New(), Incarnation: 1},
		Spec: json.RawMessage(`{}`),
	}
	_, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	return p, req
}

// wrong is a provider with one fault.
type wrong struct {
	provider.Provider
	fault string

	deletes atomic.Int32
	second  chan struct{}
}

func (w *wrong) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	switch w.fault {
	case "takes any name":
		if len(req.Name) < 4 || req.Name == "/etc" {
			req.Name = "any"
		}
	case "makes a second":
		req.Name += "-" + uuid.NewString()[:8]
	case "calls everything running":
		i, err := w.Provider.Create(ctx, req)
		i.ProviderID = uuid.NewString()
		return i, err
	case "reports errors":
		return provider.Instance{Status: provider.StatusError, Fault: "no capacity"}, nil
	}
	return w.Provider.Create(ctx, req)
}

func (w *wrong) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	if w.fault == "ignores the workspace's id" {
		ref.WorkspaceID = uuid.Nil
	}
	return w.Provider.Get(ctx, ref)
}

func (w *wrong) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	list, err := w.Provider.List(ctx, installation)
	if w.fault == "forgets in listings" {
		list = slices.DeleteFunc(list, func(i provider.Instance) bool { return strings.HasSuffix(i.Name, "-two") })
	}
	return list, err
}

func (w *wrong) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	if w.fault == "is never well" {
		return provider.Readiness{Failed: true, Detail: "kernel panic"}, nil
	}
	return w.Provider.Ready(ctx, ref)
}

func (w *wrong) Delete(ctx context.Context, ref provider.Ref) error {
	if w.fault == "fails to delete twice" {
		if _, err := w.Provider.Get(ctx, ref); err != nil {
			return err
		}
	}
	if w.fault == "is busy" && strings.Contains(ref.Name, "gone-at-once") {
		switch w.deletes.Add(1) {
		case 1: // goes on while the others come
			<-w.second
		case 2:
			close(w.second)
			fallthrough
		case 3, 4, 5:
			return errors.New("the instance is busy")
		}
	}
	if w.fault == "deletes anybody's" {
		ref.WorkspaceID = uuid.Nil
	}
	return w.Provider.Delete(ctx, ref)
}

// Each fault fails the cases that are about it, and a provider without one passes. Nothing but what the check made is
// touched, and all of that is gone in the end.
func TestCheckSeesFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string][]string{
		"":                           nil,
		"reports errors":             {"CreateTwiceIsOne", "BecomesReady"},
		"ignores the workspace's id": {"AnotherWorkspaceIsNotMeant"},
		"forgets in listings":        {"ListIsByInstallation"},
		"is never well":              {"BecomesReady", "GetUnknown"},
		"fails to delete twice":      {"DeleteTwice", "DeleteUnknown"},
		"is busy":                    {"DeletesAtOnce"},
		"deletes anybody's":          {"CreateWithOtherTagsConflicts", "AnotherWorkspaceIsNotMeant"},
		"makes a second":             {"CreateTwiceIsOne", "CreateWithOtherTagsConflicts"},
		"calls everything running":   {"CreateTwiceIsOne", "GetByNameAndByID"},
		"takes any name":             {"BadNamesAreRefused"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p, used := inUse(t)
			verdicts := map[string]conformance.Verdict{}
			deadline := time.Second
			if fault == "" { // then nothing waits for it, and nothing may be held to be stuck on a slow machine
				deadline = time.Minute
			}
			conformance.Check(t.Context(), conformance.Subject{
				Provider: &wrong{Provider: p, fault: fault, second: make(chan struct{})}, Installation: used.Tags.Installation, Spec: used.Spec, Prefix: "check-x-",
				Deadline: deadline,
			}, func(v conformance.Verdict) { verdicts[v.Case.Name] = v })
			assert.Contains(t, verdicts, "BecomesReady")
			assert.NotContains(t, verdicts, "ManyNamesAtOnce", "not safe")
			for name, v := range verdicts {
				if fault == "" {
					require.NoError(t, v.Err, name)
				}
			}
			for _, name := range want {
				require.Error(t, verdicts[name].Err, name)
				require.Equal(t, fault == "is busy", verdicts[name].Case.Nicer, "whether it is safe to use all the same")
			}
			_, err := p.Get(t.Context(), provider.Ref{Name: used.Name, WorkspaceID: used.Tags.WorkspaceID})
			require.NoError(t, err)
			if fault == "" {
				n, err := p.Count()
				require.NoError(t, err)
				assert.Equal(t, 1, n)
			}
		})
	}
}

// A check that is given up cleans up after the case at hand, and goes no further.
func TestCheckIsGivenUp(t *testing.T) {
	t.Parallel()
	p, used := inUse(t)
	ctx, cancel := context.WithCancel(t.Context())
	var last string
	conformance.Check(ctx, conformance.Subject{
		Provider: p, Installation: used.Tags.Installation, Prefix: "check-x-",
		Spec: json.RawMessage(`{"ready_latency": "1h"}`),
	}, func(v conformance.Verdict) {
		last = v.Case.Name
		if v.Case.Name == "ListIsByInstallation" {
			cancel() // before BecomesReady, which would wait
		}
	})
	assert.Equal(t, "ListIsByInstallation", last)
	n, err := p.Count()
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}
