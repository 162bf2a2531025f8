package provider_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// newRegistry counts in made how often a provider was made from each configuration.
func newRegistry(made map[string]int) *provider.Registry {
	return provider.NewRegistry(map[string]provider.Factory{
		"able": func(config json.RawMessage) (provider.Provider, error) {
			made[string(config)]++
			if string(config) == "bad" {
				return nil, xerrors.New("no such root")
			}
			return &able{}, nil
		},
		"plain": func(json.RawMessage) (provider.Provider, error) { return &plain{}, nil },
	}, inTx)
}

func TestRegistryMakesAgainOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	made := map[string]int{}
	r := newRegistry(made)
	a := provider.Row{Name: "a", Kind: "able", Config: json.RawMessage("1")}
	b := provider.Row{Name: "b", Kind: "able", Config: json.RawMessage("2")}
	r.Update([]provider.Row{a, b})
	before, err := r.Get("a")
	require.NoError(t, err)

	b.Config = json.RawMessage("3")
	r.Update([]provider.Row{a, b})
	after, err := r.Get("a")
	require.NoError(t, err)
	assert.Same(t, before, after)
	assert.Equal(t, map[string]int{"1": 1, "2": 1, "3": 1}, made)

	r.Update([]provider.Row{b})
	_, err = r.Get("a")
	require.ErrorContains(t, err, `no provider is named "a"`)
	assert.Equal(t, []string{"b"}, r.Names())
}

// A provider that was applied elsewhere is known when it is asked for; a name that nobody configured is looked for once.
func TestRegistryReadsForAnUnknownName(t *testing.T) {
	t.Parallel()
	r := newRegistry(map[string]int{})
	var rows []provider.Row
	var refused error
	reads := 0
	r.From(t.Context(), quartz.NewReal(), func(context.Context) ([]provider.Row, error) {
		reads++
		return rows, refused
	})
	require.NoError(t, r.Read(t.Context()))
	rows = []provider.Row{{Name: "a", Kind: "able", Config: json.RawMessage("1")}}
	for range 3 {
		_, err := r.Get("a")
		require.NoError(t, err)
	}
	require.Equal(t, 2, reads)
	for range 3 {
		_, err := r.Get("b")
		require.ErrorContains(t, err, `no provider is named "b"`)
	}
	require.Equal(t, 3, reads)

	rows = append(rows, provider.Row{Name: "b", Kind: "plain"})
	require.NoError(t, r.Read(t.Context()))
	_, err := r.Get("b")
	require.NoError(t, err)
	refused = xerrors.New("no database")
	_, err = r.Get("c")
	require.ErrorIs(t, err, refused)
	_, err = r.Get("b")
	require.NoError(t, err, "what is known stays")
}

// What kept a provider from being made may be mended at any time. Get finds out, at most once a second.
func TestRegistryLooksAgainForWhatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fault error
		tried := 0
		r := provider.NewRegistry(map[string]provider.Factory{
			"able": func(json.RawMessage) (provider.Provider, error) {
				tried++
				return &able{}, fault
			},
		}, inTx)
		rows := []provider.Row{{Name: "a", Kind: "able"}}
		r.From(t.Context(), quartz.NewReal(), func(context.Context) ([]provider.Row, error) { return rows, nil })
		fault = xerrors.New("no such root")
		require.NoError(t, r.Read(t.Context()))
		for range 3 {
			_, err := r.Get("a")
			require.ErrorContains(t, err, "no such root")
		}
		require.Equal(t, 2, tried, "all in one second")

		time.Sleep(time.Second)
		for range 3 {
			_, err := r.Get("a")
			require.ErrorContains(t, err, "no such root")
		}
		require.Equal(t, 3, tried)

		fault = nil
		time.Sleep(time.Second)
		_, err := r.Get("a")
		require.NoError(t, err)

		rows[0].Removed = true
		require.NoError(t, r.Read(t.Context()))
		_, err = r.Get("a")
		require.ErrorContains(t, err, "removed")
		rows[0].Removed = false
		time.Sleep(time.Second)
		_, err = r.Get("a")
		require.NoError(t, err, "applied again elsewhere")
	})
}

func TestRegistryKeepsErrorsApart(t *testing.T) {
	t.Parallel()
	made := map[string]int{}
	r := newRegistry(made)
	rows := []provider.Row{
		{Name: "bad", Kind: "able", Config: json.RawMessage("bad")},
		{Name: "good", Kind: "able", Config: json.RawMessage("good")},
		{Name: "odd", Kind: "cloud"},
		{Name: "plain", Kind: "plain"},
	}
	r.Update(rows)
	r.Update(rows)
	_, err := r.Get("bad")
	require.ErrorContains(t, err, `make provider "bad": no such root`)
	assert.Equal(t, 2, made["bad"], "one that could not be made is tried again")
	_, err = r.Get("odd")
	require.ErrorContains(t, err, `unknown kind "cloud": it is one of able, plain`)
	_, err = r.Get("good")
	require.NoError(t, err)
	assert.Equal(t, 1, made["good"])
	assert.Equal(t, []string{"bad", "good", "odd", "plain"}, r.Names())
	assert.Equal(t, []string{"here"}, r.Sites())
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r := newRegistry(map[string]int{})
	rows := []provider.Row{{Name: "a", Kind: "able"}, {Name: "b", Kind: "plain"}}
	r.Update(rows)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 100 {
				if n == 0 {
					r.Update(rows)
				}
				_, err := r.Get("a")
				assert.NoError(t, err)
				assert.Equal(t, []string{"here"}, r.Sites())
			}
		})
	}
	all.Wait()
}

// A spec is judged by whoever reaches the site where its workspaces are, with all that is wrong with it.
func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	r := newRegistry(map[string]int{})
	r.Update([]provider.Row{{Name: "a", Kind: "able"}, {Name: "gone", Removed: true}})
	for _, site := range []string{"here", ""} {
		judged, why := r.Refuses("a", site, json.RawMessage(`{}`), nil)
		require.True(t, judged)
		require.NoError(t, why)
	}
	for name, site := range map[string]string{"a": "there", "gone": "", "unknown": ""} {
		judged, _ := r.Refuses(name, site, json.RawMessage(`{}`), nil)
		require.False(t, judged, name)
	}
	err := provider.SpecError([]provider.Problem{{Path: "image", Message: "missing"}, {Path: "cpu", Message: "is no number"}})
	require.EqualError(t, err, "check spec: image: missing; cpu: is no number")
	require.True(t, provider.IsPermanent(err))
}
