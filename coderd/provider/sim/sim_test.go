package sim_test

import (
	"encoding/json"
	"testing"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

func open(t *testing.T, opts sim.Options) *sim.Provider {
	t.Helper()
	p, err := sim.New(opts)
	require.NoError(t, err)
	return p
}

var garbage = map[string]json.RawMessage{
	"fail":           json.RawMessage(`{"fail": 2}`),
	"lie":            json.RawMessage(`{"lie": "often"}`),
	"create_latency": json.RawMessage(`{"create_latency": "90ms-10ms"}`),
	"delete_latency": json.RawMessage(`{"delete_latency": 5}`),
	"surprise":       json.RawMessage(`{"surprise": 1}`),
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		return providertest.Harness{
			Provider: open(t, sim.Options{Clock: quartz.NewReal()}),
			Spec:     json.RawMessage(`{"create_latency": "1ms-10ms", "ready_latency": "20ms", "delete_latency": "2ms"}`),
			Garbage:  garbage,
		}
	})
}

func TestConformanceInFiles(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		root := t.TempDir()
		return providertest.Harness{
			Provider: open(t, sim.Options{Root: root, Clock: quartz.NewReal()}),
			Other:    open(t, sim.Options{Root: root, Clock: quartz.NewReal()}),
			Spec:     json.RawMessage(`{"create_latency": "1ms-10ms", "ready_latency": "20ms", "delete_latency": "2ms"}`),
			Garbage:  garbage,
		}
	})
}
