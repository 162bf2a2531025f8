package sdk

import (
	"context"
	"time"
)

// AuditFilter narrows a listing of the audit log; empty fields match everything.
type AuditFilter struct {
	Q      string // words, each a part of what an entry is found by, in any case
	Action string
	Actor  string
	Target string // name or id
	People bool   // leaves out what Prewarm did by itself
	Since  time.Time
	Until  time.Time // exclusive
	Limit  int       // of one page; the server's choice where 0
	Before int64     // Next of the page before
}

// Audit lists one page of the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (AuditList, error) {
	return ask[AuditList](ctx, c, read("audit").where(query{
		"action": f.Action, "actor": f.Actor, "target": f.Target, "people": f.People, "since": f.Since, "until": f.Until,
		"q": f.Q, "limit": f.Limit, "before": f.Before,
	}))
}

// Replicas lists the server processes.
func (c *Client) Replicas(ctx context.Context) ([]Replica, error) {
	return get[[]Replica](ctx, c, "replicas")
}

// LastPass says how the passes stand.
func (c *Client) LastPass(ctx context.Context) (LastPass, error) {
	return get[LastPass](ctx, c, "passes", "last")
}
