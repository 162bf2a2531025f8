package sdk

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// AgentConfig is what a template wants of the agent in its workspaces.
type AgentConfig struct {
	OnStart           []string `json:"on_start,omitempty" doc:"Program and arguments; the workspace is ready when it has succeeded"`
	Runner            []string `json:"runner,omitempty" doc:"Program and arguments, run after on_start in the workspaces of runner presets"`
	OnClaim           []string `json:"on_claim,omitempty" doc:"Program and arguments, run once for each claim"`
	HeartbeatTimeoutS int      `json:"heartbeat_timeout_s" doc:"Seconds without a report after which the agent is silent"`
	DataPlane         *bool    `json:"data_plane,omitempty" doc:"False: nobody can run commands in the workspace through the agent"`
}

// DataPlaneOff says whether the template turns the data plane off.
func (c AgentConfig) DataPlaneOff() bool { return c.DataPlane != nil && !*c.DataPlane }

// Agent is what people see of the agent in a workspace.
type Agent struct {
	Status       string          `json:"status" enum:"expected,starting,ready,unhealthy,silent,claim-ready,claim-failed"`
	Silent       bool            `json:"silent" doc:"Not heard of for longer than the template allows"`
	Message      string          `json:"message,omitempty"`
	SystemInfo   json.RawMessage `json:"system_info,omitempty"`
	Recoveries   int             `json:"recoveries" doc:"How often it fell silent in a ready workspace"`
	HeartbeatAt  *time.Time      `json:"heartbeat_at,omitempty"`
	ClaimSeenAt  *time.Time      `json:"claim_seen_at,omitempty" doc:"When it said that it knows of the claim"`
	ClaimReadyAt *time.Time      `json:"claim_ready_at,omitempty" doc:"When on_claim had succeeded"`
}

// AgentStatus is what an agent says of its workspace.
type AgentStatus string

const (
	AgentStarting    AgentStatus = "starting"
	AgentReady       AgentStatus = "ready"
	AgentUnhealthy   AgentStatus = "unhealthy"
	AgentClaimReady  AgentStatus = "claim-ready"
	AgentClaimFailed AgentStatus = "claim-failed"
)

// AgentReport is one report, and a heartbeat. ClaimID says which claim the agent knows of; it must be that of the
// workspace. User data that was written for GARM uses its words: installing is starting, idle is ready, failed is
// unhealthy.
type AgentReport struct {
	Status         AgentStatus     `json:"status" enum:"starting,ready,unhealthy,claim-ready,claim-failed,installing,pending,idle,active,failed"`
	Message        string          `json:"message,omitempty" maxLength:"4096" doc:"For people: why it is unhealthy, or the claim failed"`
	SystemInfo     json.RawMessage `json:"system_info,omitempty" doc:"An object of the agent's own choice"`
	ClaimID        *uuid.UUID      `json:"claim_id,omitempty"`
	SecretsWritten bool            `json:"secrets_written,omitempty" doc:"The secrets of that claim are in the workspace: the server wipes them"`

	AgentID json.RawMessage `json:"agent_id,omitempty" doc:"A runner's number at its forge, in reports of GARM; not kept"`
}

// SystemInfo is what user data that was written for GARM says of the system it runs on.
type SystemInfo struct {
	OSName    string          `json:"os_name,omitempty" maxLength:"255"`
	OSVersion string          `json:"os_version,omitempty" maxLength:"255"`
	AgentID   json.RawMessage `json:"agent_id,omitempty"`
}

// CertificateBundle are authorities, each by a name for its file, in PEM.
type CertificateBundle struct {
	RootCertificates map[string][]byte `json:"root_certificates"`
}

// RunnerMetadata is what a workspace's runner is called and what it takes.
type RunnerMetadata struct {
	Name        string   `json:"name" doc:"By which it registers"`
	ForgeType   string   `json:"forge_type" enum:"github,gitea"`
	Labels      []string `json:"labels"`
	Group       string   `json:"runner_group,omitempty"`
	ServiceName string   `json:"service_name"`
}

// AgentReceipt is the answer to a report. Token is set when the one used is signed by a key that is no longer the newest:
// the agent goes on with the new one.
type AgentReceipt struct {
	Token string `json:"token,omitempty"`
}

// InstanceMetadata is all that a workspace may know of itself. Owner is set when it is claimed.
type InstanceMetadata struct {
	WorkspaceID  uuid.UUID         `json:"workspace_id"`
	Name         string            `json:"name"`
	Incarnation  int               `json:"incarnation"`
	State        string            `json:"state"`
	Organization string            `json:"organization"`
	Template     string            `json:"template"`
	Preset       string            `json:"preset"`
	Version      int               `json:"version"`
	Parameters   map[string]string `json:"parameters" doc:"Of the preset"`
	Labels       map[string]string `json:"labels"`
	CABundle     string            `json:"ca_bundle,omitempty" doc:"PEM: what to trust the server by, in addition to the usual"`
	// ForgeCABundle is of a runner: all authorities of its forge's credential.
	ForgeCABundle string         `json:"forge_ca_bundle,omitempty" doc:"PEM, of a runner: what to trust its forge by, in addition to the usual"`
	Agent         AgentConfig    `json:"agent"`
	Claim         *InstanceClaim `json:"claim,omitempty" doc:"While it is claimed"`
}

// InstanceClaim is what a claimed workspace is told: whose it is now, and with what.
type InstanceClaim struct {
	ClaimID    uuid.UUID         `json:"claim_id"`
	OwnerID    uuid.UUID         `json:"owner_id"`
	Owner      string            `json:"owner"`
	ClaimedAt  time.Time         `json:"claimed_at"`
	Parameters map[string]string `json:"parameters" doc:"Of the preset, with those of the claim over them"`
	Secrets    map[string]string `json:"secrets,omitempty" doc:"Of the claim, until a report says that they are written"`
}

// InstanceEvents is the state that an agent acts on, as the database had it when it was asked.
type InstanceEvents struct {
	State string         `json:"state"`
	Claim *InstanceClaim `json:"claim,omitempty"`
}

// SigningKey signs instance tokens; its secret is told to nobody.
type SigningKey struct {
	ID        uuid.UUID  `json:"id"`
	CreatedAt time.Time  `json:"created_at"`
	RetiredAt *time.Time `json:"retired_at,omitempty"`
	Signs     bool       `json:"signs" doc:"Whether new tokens are signed with it"`
	Agents    int        `json:"agents" doc:"Agents of live workspaces last seen with a token that it signed"`
}

// RotateRequest makes a new signing key. Older ones go on verifying until no agent uses them, or with RetireNow end at
// once: agents that hold their tokens are cut off, and their prebuilds replaced.
type RotateRequest struct {
	RetireNow bool `json:"retire_now,omitempty"`
}
