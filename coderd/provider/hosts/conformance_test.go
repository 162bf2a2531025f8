package hosts_test

import (
	"encoding/json"
	"testing"

	"cdr.dev/slog"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
)

func open(t *testing.T, f *hoststest.Fleet, settings map[string]any) *hosts.Provider {
	t.Helper()
	config, err := hosts.ParseConfig(f.Config(t, settings))
	require.NoError(t, err)
	return hosts.New(hosts.Options{Config: config, Logger: slog.Make()})
}

const simple = `{"prepare": "echo preparing; touch prepared", "check": "test -e prepared", "reset": "echo resetting",
	"proof": "true", "environment": {"COLOR": "it's blue"}}`

func TestConformance(t *testing.T) {
	t.Parallel()
	conforms(t, provider.Callback{})
}

// All of the contract holds of workspaces with an agent too.
func TestConformance_withAgents(t *testing.T) {
	t.Parallel()
	conforms(t, callback)
}

func conforms(t *testing.T, callback provider.Callback) {
	t.Helper()
	f := hoststest.Start(t, 5)
	settings := map[string]any{"agent_binary": inner(t)}
	one := open(t, f, settings)
	settings["connections"], settings["calls"] = 3, 2
	other := open(t, f, settings)
	providertest.Run(t, func(*testing.T) providertest.Harness {
		return providertest.Harness{
			Provider: one, Other: other, Spec: json.RawMessage(simple), Parameters: map[string]string{"size": "small"},
			Callback: callback,
			Deadline: deadline, CutOff: cutOff, Rounds: rounds(t, 5),
			Garbage: map[string]json.RawMessage{
				"reset":           json.RawMessage(`{"prepare": "true"}`),
				"prepare":         json.RawMessage(`{"prepare": ["true"], "reset": "true"}`),
				"check":           json.RawMessage(`{"check": " ", "reset": "true"}`),
				"proof":           json.RawMessage(`{"proof": 1, "reset": "true"}`),
				"prepare_timeout": json.RawMessage(`{"reset": "true", "prepare_timeout": "an hour"}`),
				"reset_timeout":   json.RawMessage(`{"reset": "true", "reset_timeout": "0s"}`),
				"check_timeout":   json.RawMessage(`{"reset": "true", "check_timeout": 5}`),
				"environment.A":   json.RawMessage(`{"reset": "true", "environment": {"A": 1}}`),
				"environment.A=B": json.RawMessage(`{"reset": "true", "environment": {"A=B": ""}}`),
				"environment.PREWARM_MACHINE": json.RawMessage(
					`{"reset": "true", "environment": {"PREWARM_MACHINE": "m"}}`),
				"command": json.RawMessage(`{"reset": "true", "command": ["true"]}`),
			},
		}
	})
}
