package sdk

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// AuditFilter narrows a listing of the audit log; empty fields match everything.
type AuditFilter struct {
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
func (c *Client) Audit(ctx context.Context, filter AuditFilter) (AuditList, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"action": filter.Action, "actor": filter.Actor, "target": filter.Target,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": filter.Since, "until": filter.Until} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if filter.People {
		query.Set("people", "true")
	}
	if filter.Limit > 0 {
		query.Set("limit", strconv.Itoa(filter.Limit))
	}
	if filter.Before > 0 {
		query.Set("before", strconv.FormatInt(filter.Before, 10))
	}
	return ask[AuditList](ctx, c, call{method: http.MethodGet, path: []string{"audit"}, query: query, idempotent: true})
}

// Replicas lists the server processes.
func (c *Client) Replicas(ctx context.Context) ([]Replica, error) {
	return get[[]Replica](ctx, c, "replicas")
}

// LastPass says how the passes stand.
func (c *Client) LastPass(ctx context.Context) (LastPass, error) {
	return get[LastPass](ctx, c, "passes", "last")
}
