package templates_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
)

func TestParseUpkeep(t *testing.T) {
	t.Parallel()
	doc, err := templates.Parse("f", `
templates:
  - {name: a, provider: p, spec: {}}
  - {name: b, provider: p, spec: {}, keep_failures: {}, reuse: true}
  - {name: c, provider: p, spec: {}, keep_failures: {maximum: 7, ttl: 90m}, max_uses: 3, reuse: true}
  - {name: d, provider: p, spec: {}, keep_failures: {maximum: 0}, reuse: false}
`)
	require.NoError(t, err)
	for i, want := range []string{"0 24h0m0s, 1", "2 24h0m0s, 10", "7 1h30m0s, 3", "0 24h0m0s, 1"} {
		d := doc.Templates[i]
		require.Equal(t, want, fmt.Sprintf("%d %s, %d", d.KeepFailures.Maximum, d.KeepFailures.TTL, d.Reuse.MaxUses), d.Name)
	}
	for settings, want := range map[string]string{
		"keep_failures: 3":               "keep_failures must be a mapping",
		"keep_failures: {maximum: 1000}": "maximum of keep_failures is 1000: it must be between 0 and 100; 0 is to keep none",
		"keep_failures: {ttl: 0s}":       "ttl of keep_failures is 0s: it must be between 1s and 720h0m0s",
		"keep_failures: {for: 1h}":       "keep_failures has no setting \"for\"",
		"reuse: maybe":                   "reuse must be true or false",
		"max_uses: 3":                    `max_uses is for workspaces that are used again: add "reuse: true"`,
		"reuse: true, max_uses: 1":       "max_uses is 1: it must be between 2 and 1000000",
	} {
		_, err := templates.Parse("f", "templates: [{name: a, provider: p, spec: {}, "+settings+"}]")
		require.ErrorContains(t, err, want, settings)
	}
}

// resettable is a provider that can make a used workspace like new.
type resettable struct{ fake }

func (resettable) Reset(context.Context, provider.CreateRequest) (provider.Instance, error) {
	return provider.Instance{}, nil
}

// unsure is one that cannot be sure to end all of the user before.
type unsure struct{ resettable }

func (unsure) Isolated() error { return errors.New("no namespaces here") }

// Upkeep is told and stored, and makes no version; reuse is refused at a provider that can't.
func TestApplyUpkeep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(kind string, config json.RawMessage) (provider.Provider, error) {
		switch kind {
		case "resettable":
			return resettable{}, nil
		case "unsure":
			return unsure{}, nil
		}
		return newProvider(kind, config)
	}
	file := func(kind, settings string) string {
		return "providers: [{name: " + kind + ", kind: " + kind + "}]\ntemplates:\n" +
			"  - {name: t, provider: " + kind + ", spec: {command: [x]}" + settings + "}\n"
	}
	_, err := b.try(file("fake", ", reuse: true"), false)
	require.ErrorContains(t, err, `provider "fake" cannot reset a used workspace`)
	_, err = b.try(file("unsure", ", reuse: true"), false)
	require.ErrorContains(t, err, "cannot be sure to end all that runs in a used workspace: no namespaces here")
	_, err = b.try(file("unsure", ""), false)
	require.NoError(t, err)

	b.apply(t, file("resettable", ""))
	for _, step := range []struct{ settings, fields string }{
		{", reuse: true", "[max_uses: 1 -> 10]"},
		{", reuse: true, keep_failures: {}", "[keep_failures.maximum: 0 -> 2]"},
		{", reuse: true, keep_failures: {ttl: 1h}", "[keep_failures.ttl: 24h0m0s -> 1h0m0s]"},
		{", keep_failures: {ttl: 1h}, max_uses: 4, reuse: true", "[max_uses: 10 -> 4]"},
		{", keep_failures: {ttl: 1h}, max_uses: 4, reuse: true", ""},
		{"", "[keep_failures.maximum: 2 -> 0 keep_failures.ttl: 1h0m0s -> 24h0m0s max_uses: 4 -> 1]"},
	} {
		told := ""
		for _, c := range b.apply(t, file("resettable", step.settings)).Changes {
			require.Equal(t, "template", c.Kind, "nothing else changes")
			told = fmt.Sprint(c.Fields)
		}
		require.Equal(t, step.fields, told, step.settings)
	}
}
