package sdk

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ClaimRecord is a claim as it is on record, from standing in line to its end.
type ClaimRecord struct {
	ClaimID    uuid.UUID  `json:"claim_id"`
	State      string     `json:"state" enum:"waiting,bound,released,missed"`
	Outcome    string     `json:"outcome,omitempty" enum:"hit,waited,cold,miss" doc:"None yet while it waits"`
	Mode       string     `json:"mode" enum:"prefer,require,bypass"`
	User       string     `json:"user"`
	Template   string     `json:"template"`
	Preset     string     `json:"preset"`
	Workspace  string     `json:"workspace,omitempty" doc:"Name of the workspace, where one was bound to it and is on record still"`
	Standby    bool       `json:"standby,omitempty" doc:"The workspace was stopped, and was started for this claim"`
	Cold       bool       `json:"cold,omitempty" doc:"It wants one that is built for it"`
	Place      int        `json:"place,omitempty" doc:"In the line of its preset while it waits, from 1"`
	Reason     string     `json:"reason,omitempty" doc:"Of a miss"`
	ReasonCode string     `json:"reason_code,omitempty" doc:"The same for programs; empty for those of a release before codes"`
	CreatedAt  time.Time  `json:"created_at" doc:"When it was asked for"`
	DeadlineAt *time.Time `json:"deadline_at,omitempty" doc:"Until when it waits"`
	BoundAt    *time.Time `json:"bound_at,omitempty" doc:"When it got its workspace"`
	ReleasedAt *time.Time `json:"released_at,omitempty"`
	Lease      string     `json:"lease,omitempty" doc:"For how long it was asked for, such as 2h0m0s; empty: for any time"`
	LeaseUntil *time.Time `json:"lease_until,omitempty" doc:"When it ends by itself unless the lease is renewed"`
	WaitedMS   float64    `json:"waited_ms" doc:"In line, until a workspace was bound to it or until now"`
	Receipt    *Receipt   `json:"receipt,omitempty"`

	Group *ClaimGroup `json:"group,omitempty" doc:"Where it is one of several that were one request"`
}

// ClaimGroup is a request with a count: its claims are bound together, all or none, and are released one by one.
type ClaimGroup struct {
	ID    uuid.UUID `json:"id" doc:"Give it as group to list its claims"`
	Count int       `json:"count" doc:"How many claims it is"`
	Alike int       `json:"alike" doc:"How many of them are in the state of this one"`
	Ready int       `json:"ready" doc:"While it waits: how many ready workspaces there are for it"`
}

// ClaimFilter narrows a listing of claims. A State that is empty is bound; other empty fields match everything.
type ClaimFilter struct {
	State    string `query:"state" enum:"waiting,bound,released,missed" default:"bound" doc:"bound: those that hold a workspace"`
	Outcome  string `query:"outcome" enum:"hit,waited,cold,miss"`
	Template string `query:"template"`
	Preset   string `query:"preset"`
	User     string `query:"user" doc:"Name of who claimed"`
	Q        string `query:"q" maxLength:"200" doc:"Words, each a part of the pool, the user or the workspace, in any case"`
	Group    string `query:"group" format:"uuid" doc:"All claims of one request with a count, whatever their state; other filters are not looked at"`
	Limit    int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After    string `query:"after" doc:"What the page before gave as next"`
}

// Claims lists one page of claims: those that wait as they stand in line, others the newest first.
func (c *Client) Claims(ctx context.Context, f ClaimFilter) (ClaimList, error) {
	return ask[ClaimList](ctx, c, read("claims").filtered(f))
}
