package external_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
)

var garbage = map[string]json.RawMessage{
	"image":     json.RawMessage(`{"flavor": "small"}`),
	"flavor":    json.RawMessage(`{"image": "ubuntu", "flavor": ["small"]}`),
	"os_type":   json.RawMessage(`{"image": "ubuntu", "flavor": "small", "os_type": "plan9"}`),
	"os_arch":   json.RawMessage(`{"image": "ubuntu", "flavor": "small", "os_arch": "x86_64"}`),
	"labels":    json.RawMessage(`{"image": "ubuntu", "flavor": "small", "labels": "gpu"}`),
	"user_data": json.RawMessage(`{"image": "ubuntu", "flavor": "small", "user_data": {"reboot": true}}`),
	"ca_bundle": json.RawMessage(`{"image": "ubuntu", "flavor": "small", "ca_bundle": "mine"}`),
	"surprise":  json.RawMessage(`{"image": "ubuntu", "flavor": "small", "surprise": 1}`),
}

// garbageBySchema is what only the executable knows to be wrong.
var garbageBySchema = map[string]json.RawMessage{
	"extra_specs.disk_gb": json.RawMessage(`{"image": "u", "flavor": "s", "extra_specs": {"disk_gb": "big"}}`),
	"extra_specs":         json.RawMessage(`{"image": "u", "flavor": "s", "extra_specs": {"surprise": true}}`),
}

// Both versions of the protocol, and each way of real executables that the contract must be kept in spite of.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]externaltest.Config{
		"v0.1.0":            {Protocol: "v0.1.0"},
		"v0.1.1":            {},
		"duplicate_is_1":    {Fault: externaltest.DuplicateIs1},
		"duplicate_is_made": {Fault: externaltest.DuplicateIsMade},
		"names_are_lost":    {Fault: externaltest.NamesAreLost},
		"no_version":        {Fault: externaltest.NoVersion, Protocol: "v0.1.0"},
		"missing_is_1":      {Fault: externaltest.MissingIs1, Protocol: "v0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Harness {
				c.CreateMS = 5
				s := newSite(t, c)
				if c.Protocol != "" { // which has no schema to say so
					s.config["install_script"] = "runner_install_template"
				}
				bad := maps.Clone(garbage)
				if c.Protocol == "" {
					maps.Copy(bad, garbageBySchema)
				}
				p := s.open()
				if c.Protocol == "" {
					require.Equal(t, "v0.1.1", p.Interface())
				} else {
					require.Equal(t, "v0.1.0", p.Interface())
				}
				return providertest.Harness{
					Provider: p, Other: s.open(), Installation: s.installation,
					Foreign: s.foreign(), ForeignInstallation: uuid.NewSHA1(s.installation, []byte("foreign")),
					Spec: json.RawMessage(good), Garbage: bad, CutOff: 60 * time.Millisecond, Ageless: true,
				}
			})
		})
	}
}
