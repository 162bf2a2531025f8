package sdk

import (
	"context"
	"time"
)

// AuditFilter narrows a listing of the audit log; empty fields match everything.
type AuditFilter struct {
	Limit  int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Before int64  `query:"before" minimum:"1" doc:"What the page before gave as next"`
	Action string `query:"action" doc:"Such as workspace.release"`
	Actor  string `query:"actor" doc:"Name of a user"`
	Target string `query:"target" doc:"Name or id of what it was done to"`
	Q      string `query:"q" maxLength:"200" doc:"Words, each a part of the actor, action, target, reason or source, in any case"`

	People bool      `query:"people" doc:"Leave out what Prewarm did by itself"`
	Since  time.Time `query:"since" doc:"Only what was done from then on"`
	Until  time.Time `query:"until" doc:"Only what was done before then"`
}

// Audit lists one page of the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (AuditList, error) {
	return ask[AuditList](ctx, c, read("audit").filtered(f))
}

// Replicas lists the server processes.
func (c *Client) Replicas(ctx context.Context) ([]Replica, error) {
	return get[[]Replica](ctx, c, "replicas")
}

// LastPass says how the passes stand.
func (c *Client) LastPass(ctx context.Context) (LastPass, error) {
	return get[LastPass](ctx, c, "passes", "last")
}
