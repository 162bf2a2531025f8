package sdk

import (
	"context"
	"time"
)

// Machine is one of a provider whose machines exist beforehand, as it was listed last.
type Machine struct {
	Machine string `json:"machine" doc:"Its id at the provider"`
	Address string `json:"address,omitempty" doc:"Empty where none is known"`
	State   string `json:"state" enum:"used,unused,possibly_used" doc:"possibly_used: nobody can say; error says why"`
	Error   string `json:"error,omitempty"`
	// Workspace is whose it is here; Holder is what the machine says itself, of whatever installation.
	Workspace      string     `json:"workspace,omitempty" doc:"The workspace that it is reserved for"`
	WorkspaceState string     `json:"workspace_state,omitempty"`
	Incarnation    int32      `json:"incarnation,omitempty"`
	Holder         string     `json:"holder,omitempty" doc:"What the machine itself says it is used by"`
	ReservedAt     *time.Time `json:"reserved_at,omitempty"`
	SeenAt         *time.Time `json:"seen_at,omitempty" doc:"When it answered last"`
	Failures       int32      `json:"failures,omitempty" doc:"Of workspaces on it, in a row"`
	RetryAt        *time.Time `json:"retry_at,omitempty" doc:"After failures: when it is reserved again, at the earliest"`
}

// Machines lists the machines of a provider whose machines exist beforehand.
func (c *Client) Machines(ctx context.Context, provider string) ([]Machine, error) {
	return get[[]Machine](ctx, c, "providers", provider, "machines")
}
