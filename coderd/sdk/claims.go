package sdk

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ClaimRequest asks for a workspace of a preset, or for several.
type ClaimRequest struct {
	Template string `json:"template" minLength:"1" maxLength:"64"`
	Preset   string `json:"preset,omitempty" maxLength:"64" doc:"Its name; where it is left out, preset_parameters choose"`

	PresetParameters map[string]string `json:"preset_parameters,omitempty" doc:"Chooses the preset whose parameters are all among these, and of those the one with most. What it does not have is given to the agent"`

	Mode  string `json:"mode,omitempty" enum:"prefer,require,bypass" default:"prefer" doc:"require: a warm one or a miss; prefer: else wait for one up to wait; bypass: one that is built for this claim"`
	Cold  bool   `json:"cold,omitempty" doc:"With mode prefer: where none is warm, wait for one that is built for this claim"`
	Wait  string `json:"wait,omitempty" doc:"How long to wait, such as 30s. Where empty 30s, and 10m for one that is built" example:"30s"`
	Key   string `json:"key,omitempty" maxLength:"200" doc:"Idempotency key: the same key gives the same workspace"`
	Count int    `json:"count,omitempty" minimum:"1" maximum:"100" doc:"How many, all or none; 1 where it is left out"`
	Lease string `json:"lease,omitempty" doc:"How long until it is released unless the lease is renewed; as the template says where empty" example:"2h"`

	WaitReady string `json:"wait_ready,omitempty" doc:"Wait so long until on_claim has succeeded; a workspace in which it fails is replaced by another" example:"5m"`

	Parameters map[string]string `json:"parameters,omitempty" doc:"For the agent of the claimed workspace: kept until the claim is over, given to nobody else"`
	Secrets    map[string]string `json:"secrets,omitempty" doc:"For the agent too, as files in the workspace: wiped here as soon as they are there"`
}

// Claim is the answer to a claim. Outcome miss has no workspace but a reason, and HTTP status 200: it is an answer.
type Claim struct {
	ClaimID     uuid.UUID         `json:"claim_id"`
	WorkspaceID *uuid.UUID        `json:"workspace_id,omitempty"`
	Name        string            `json:"name,omitempty"`
	Template    string            `json:"template"`
	Preset      string            `json:"preset"`
	Outcome     string            `json:"outcome" enum:"hit,waited,cold,miss"`
	WaitedMS    int64             `json:"waited_ms"`
	Reason      string            `json:"reason,omitempty" doc:"Of a miss"`
	ReasonCode  string            `json:"reason_code,omitempty" doc:"The same for programs; codes are never renamed"`
	ProviderID  string            `json:"provider_id,omitempty"`
	Addresses   []Address         `json:"addresses"`
	Environment map[string]string `json:"environment"`
	Open
	LeaseUntil *time.Time `json:"lease_until,omitempty" doc:"When it is released unless renewed, where a lease was asked for; of several, the first time that one is"`
	Replaced   int        `json:"replaced,omitempty" doc:"How many workspaces before it were given up because on_claim failed in them"`
	Receipt    *Receipt   `json:"receipt,omitempty"`

	Standby  bool   `json:"standby,omitempty" doc:"It was stopped, and is started for this claim"`
	Starting bool   `json:"starting,omitempty" doc:"That is not over: it can be used when its workspace is not starting any more"`
	Fault    string `json:"fault,omitempty" doc:"Why it could not be started, or not be applied for its owner; it stays claimed until it is released"`

	Workspaces []ClaimedWorkspace `json:"workspaces,omitempty" doc:"All of them, where several were asked for; the first is the one above"`
}

// ClaimedWorkspace is one of several that were claimed together, each by a claim of its own.
type ClaimedWorkspace struct {
	ClaimID     uuid.UUID         `json:"claim_id"`
	WorkspaceID uuid.UUID         `json:"workspace_id"`
	Name        string            `json:"name"`
	ProviderID  string            `json:"provider_id,omitempty"`
	Addresses   []Address         `json:"addresses"`
	Environment map[string]string `json:"environment"`
	LeaseUntil  *time.Time        `json:"lease_until,omitempty" doc:"When it is released unless renewed: each is renewed alone"`
	Open
}

// Open is to whom else than its user a claimed workspace is open. The claim decides it: it never becomes more.
type Open struct {
	Enter       []string `json:"enter,omitempty" doc:"Roles that may enter it besides the user of the claim"`
	PublicPorts []int    `json:"public_ports,omitempty" doc:"Ports that anybody may reach"`
}

// Receipt says how long each stage of a claim took, in milliseconds. A stage that the claim did not come through, or that
// is not over, is left out. Queue and statement are known only to who claims.
type Receipt struct {
	QueueMS     *float64 `json:"queue_ms,omitempty" doc:"Until the batch was formed that it shared"`
	StatementMS *float64 `json:"statement_ms,omitempty" doc:"That batch's statement, with its commit: one round trip"`
	WaitMS      *float64 `json:"wait_ms,omitempty" doc:"In line, until a workspace was bound to it"`
	ToldMS      *float64 `json:"told_ms,omitempty" doc:"From then until the agent said that it knows"`
	HookMS      *float64 `json:"hook_ms,omitempty" doc:"From then until on_claim had succeeded"`
}

// Claim asks for a workspace and waits for the answer as long as the request says. A miss is an answer, not an error.
// With a key the same request can be sent again, so it is, if the server could not be reached.
func (c *Client) Claim(ctx context.Context, req ClaimRequest) (Claim, error) {
	request := post("claims").with(req)
	request.idempotent = req.Key != ""
	return ask[Claim](ctx, c, request)
}

// RenewRequest makes the lease of a claim last longer, from now on.
type RenewRequest struct {
	Lease string `json:"lease,omitempty" doc:"As long as it was asked for at first where empty" example:"2h"`
}

// KeepRequest keeps a workspace for inspection.
type KeepRequest struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"For others who find it, and for the audit log" example:"its disk is full"`
	For    string `json:"for,omitempty" doc:"From now on; 24h where empty, 720h at most" example:"8h"`
}
