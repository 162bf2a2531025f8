package sdk

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// Pool is a preset in one line: what its slots are, how well it did, and what is wrong with it.
type Pool struct {
	ID       uuid.UUID `json:"id" doc:"Of the preset"`
	Template string    `json:"template"`
	Preset   string    `json:"preset"`
	Version  int       `json:"version" doc:"Number of the active template version"`
	Provider string    `json:"provider"`
	Pool     bool      `json:"pool" doc:"Whether it has a prebuilds block"`
	Runners  bool      `json:"runners,omitempty" doc:"Its prebuilds are runners of a forge, which jobs claim and people do not"`
	Desired  int       `json:"desired" doc:"How many prebuilds it should have ready"`
	Slots    Slots     `json:"slots"`
	Waiting  int       `json:"waiting" doc:"Claims waiting for a workspace"`

	Claims int   `json:"claims" doc:"Over the last 24 hours; a claim of several is one; counted each minute, of what came since then up to fifty"`
	Hits   int   `json:"hits" doc:"Of these, those that got a prebuild at once"`
	Hours  []int `json:"hours" doc:"Claims and hits of each of the last 24 hours, in turns, the oldest first; empty where nothing was claimed"`

	Cost *PoolCost `json:"cost,omitempty" doc:"Of its idle prebuilds, where its template says what one costs"`

	NextChange  *PoolChange `json:"next_change,omitempty" doc:"By its schedule, within 24 hours"`
	Rollout     *Rollout    `json:"rollout,omitempty" doc:"While a version replaces another"`
	Reasons     []string    `json:"reasons" doc:"Why actual is not desired, as the last pass saw it"`
	Why         []Reason    `json:"why" doc:"The reasons with their codes"`
	Attention   *Attention  `json:"attention,omitempty" doc:"Why somebody should look at it: the worst that is wrong"`
	Paused      string      `json:"paused,omitempty" doc:"The scope and the reason of the pause that holds for it"`
	PausedScope string      `json:"paused_scope,omitempty" enum:"global,provider,template,preset" doc:"What that pause covers"`
	Failures    int         `json:"failures,omitempty" doc:"Rounds of failed creates in a row"`
	Fault       string      `json:"fault,omitempty" doc:"Of the last failed create, where there are failures"`
	Error       string      `json:"error,omitempty" doc:"What the last pass could not do for this preset"`
}

// Slots are the workspaces of a pool. Each is in exactly one count.
type Slots struct {
	Ready    int `json:"ready" doc:"Actual: ready prebuilds of the active version that are to stay"`
	Outdated int `json:"outdated" doc:"Of a version that is no longer active"`
	Starting int `json:"starting" doc:"Provisioning and starting"`
	Leaving  int `json:"leaving" doc:"Stopping, deleting or expired"`
	Failed   int `json:"failed" doc:"Quarantined, for inspection"`
	Claimed  int `json:"claimed"`
}

// PoolCost is what the prebuilds cost that are idle now, in the currency of idle_cost_per_hour of the template.
type PoolCost struct {
	PerDay   float64 `json:"per_day" doc:"Of a day with as many idle as now"`
	PerClaim float64 `json:"per_claim,omitempty" doc:"The same for each claim of the last 24 hours; left out where there was none"`
}

// Attention is why somebody should look at a pool.
type Attention struct {
	Code string `json:"code" doc:"For programs; codes are never renamed"`
	Bad  bool   `json:"bad" doc:"Whether it does not mend by itself"`
	Text string `json:"text"`
}

// PoolChange is what a schedule does next.
type PoolChange struct {
	At        time.Time `json:"at"`
	Instances int       `json:"instances"`
}

// PoolList is one page of pools, in the order of their names.
type PoolList struct {
	Pools []Pool `json:"pools"`
	Next  string `json:"next,omitempty" doc:"Give it as after to get the next page; empty on the last"`
}

// Pools lists one page: those of the presets of ids, or all after the page before. A limit of 0 is the server's choice.
func (c *Client) Pools(ctx context.Context, ids []uuid.UUID, limit int, after string) (PoolList, error) {
	texts := lists.Of(ids, func(id uuid.UUID) string { return id.String() })
	return ask[PoolList](ctx, c, read("pools").where(query{
		"ids": strings.Join(texts, ","), "limit": limit, "after": after,
	}))
}
