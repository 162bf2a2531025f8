package kubernetes_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	agent := provider.Callback{CallbackURL: "http://prewarm.test:7080/api/v1/instances/x", Token: "the-token"}
	const serves = `, "command": ["/bin/guest", "serve"], "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}`
	for name, kind := range map[string]struct {
		callback provider.Callback
		spec     json.RawMessage
	}{
		"plain":   {spec: spec(serves, "")},
		"agent":   {agent, spec(serves, "")},
		"volumes": {agent, withVolumes(serves)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			providertest.Run(t, func(*testing.T) providertest.Harness {
				return providertest.Harness{
					Provider: p.open(), Other: p.open(), Foreign: p.open(), Callback: kind.callback,
					Parameters: map[string]string{"size": "small"}, Deadline: 3 * time.Minute, Settle: time.Minute,
					CutOff: 60 * time.Millisecond, Rounds: rounds(6),
					Spec: kind.spec,
					Garbage: map[string]json.RawMessage{
						"pod.spec.containers":          json.RawMessage(`{"pod": {"spec": {"containers": []}}}`),
						"pod.spec.containers[0].imago": json.RawMessage(`{"pod": {"spec": {"containers": [{"name": "a", "imago": "b"}]}}}`),
						"pod.spec.hostPID":             json.RawMessage(`{"pod": {"spec": {"hostPID": true, "containers": [{"name": "a", "image": "b"}]}}}`),
						"image":                        json.RawMessage(`{"image": "debian:12"}`),
					},
				}
			})
		})
	}
}
