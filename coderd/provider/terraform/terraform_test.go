package terraform_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
	"github.com/prewarm-dev/prewarm/coderd/states"
)

// stored are the states of a service, as the provider reads them.
type stored struct{ *states.Service }

func found[T any](answer T, err error) (T, error) {
	if errors.Is(err, states.ErrNone) {
		err = provider.ErrNotFound
	}
	return answer, err
}

func (s stored) Of(ctx context.Context, id uuid.UUID) (terraform.Stored, error) {
	is, err := found(s.Service.Of(ctx, id))
	return terraform.Stored(is), err
}

func (s stored) Named(ctx context.Context, name string) (terraform.Stored, error) {
	is, err := found(s.Service.Named(ctx, name))
	return terraform.Stored(is), err
}

func (s stored) All(ctx context.Context) (all []terraform.Stored, err error) {
	have, err := s.Service.All(ctx)
	for _, is := range have {
		all = append(all, terraform.Stored(is))
	}
	return all, err
}

func (s stored) Module(ctx context.Context, id uuid.UUID) ([]byte, error) {
	return found(s.Service.Module(ctx, id))
}

func (s stored) State(ctx context.Context, id uuid.UUID) ([]byte, error) {
	return found(s.Service.State(ctx, id))
}

// A module that needs no cloud and no plugin.
const data = `
variable "size" { type = string }
variable "region" { type = string }
resource "terraform_data" "machine" { input = { size = var.size, region = var.region } }
output "ip" { value = ["10.0.0.1", terraform_data.machine.output.size] }
output "env" {
  value     = { REGION = terraform_data.machine.output.region, SECRET = "s3cret" }
  sensitive = true
}
`

// provider is one of the world's, for what has no workspace.
func (w *world) provider(installation uuid.UUID) provider.Provider {
	return provider.WithState(&terraform.Provider{Runner: w.Runner, States: stored{w.states}, StateURL: w.url, Installation: installation}, w.begin)
}

func (w *world) begin(ctx context.Context, name string, id uuid.UUID, incarnation int32) (provider.State, error) {
	c, err := w.states.BeginAlone(ctx, id, name, incarnation)
	return provider.State{User: c.WorkspaceID.String(), Token: c.Token}, err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	spec, err := json.Marshal(map[string]any{
		"module":    map[string]string{"main.tf": data},
		"variables": map[string]string{"region": "eu-${parameters.zone}"},
		"outputs":   map[string]string{"addresses": "ip", "environment": "env"},
		// The suite cuts creates off anywhere, and wants them to go on.
		"idempotent": true,
	})
	require.NoError(t, err)
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		mine, theirs := uuid.New(), uuid.New()
		return providertest.Harness{
			Provider: newWorld(t).provider(mine), Installation: mine, Foreign: newWorld(t).provider(theirs), ForeignInstallation: theirs,
			Spec: spec, Parameters: map[string]string{"size": "small", "zone": "1"},
			Garbage: map[string]json.RawMessage{
				"module":                     json.RawMessage(`{}`),
				"module./etc/x":              json.RawMessage(`{"module": {"/etc/x": ""}}`),
				"module.prewarm_override.tf": json.RawMessage(`{"module": {"prewarm_override.tf": ""}}`),
				"variables.a b":              json.RawMessage(`{"module": {"main.tf": ""}, "variables": {"a b": ""}}`),
				"variables.a":                json.RawMessage(`{"module": {"main.tf": ""}, "variables": {"a": "${parameters.none}"}}`),
				"outputs.ready":              json.RawMessage(`{"module": {"main.tf": ""}, "outputs": {"ready": "a b"}}`),
				"outputs.environment":        json.RawMessage(`{"module": {"main.tf": ""}, "outputs": {"environment": ""}}`),
				"idempotent":                 json.RawMessage(`{"module": {"main.tf": ""}, "idempotent": "yes"}`),
				"more":                       json.RawMessage(`{"module": {"main.tf": ""}, "more": true}`),
			},
			Deadline: 2 * time.Minute, Rounds: 4, CutOff: time.Second,
		}
	})
}
