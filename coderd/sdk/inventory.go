package sdk

import (
	"context"
	"strconv"
	"time"
)

// Inventory is one provider held against the database, at one site where it has sites.
type Inventory struct {
	Provider  string           `json:"provider"`
	Site      string           `json:"site,omitempty" doc:"Where the provider's resources are reached from; empty: everywhere"`
	Confirmed bool             `json:"confirmed" doc:"Orphans are deleted there; else they are only shown"`
	Breaker   *Breaker         `json:"breaker,omitempty" doc:"Present while it is open"`
	Last      *LastInventory   `json:"last,omitempty" doc:"The last inventory that a replica made and acted upon"`
	Error     string           `json:"error,omitempty" doc:"Why this one could not be made now, or not here"`
	Entries   []InventoryEntry `json:"entries" doc:"What both sides have now; nothing was done about it"`
	Counts    map[string]int   `json:"counts" doc:"How many there are of each verdict, also of those that are left out of the entries"`
}

// Breaker is an open one (S3).
type Breaker struct {
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	Clean   int       `json:"clean" doc:"Clean inventories in a row so far"`
	CloseAt int       `json:"close_at" doc:"How many of them close it"`
}

// LastInventory is how the last one ended.
type LastInventory struct {
	EndedAt       time.Time  `json:"ended_at"`
	Outcome       string     `json:"outcome" enum:"complete,incomplete"`
	Error         string     `json:"error,omitempty" doc:"Of an incomplete one"`
	CompleteAt    *time.Time `json:"complete_at,omitempty" doc:"When the last complete one began"`
	Resources     int        `json:"resources" doc:"That the last complete one found"`
	Workspaces    int        `json:"workspaces"`
	Discrepancies int        `json:"discrepancies"`
	NextAt        time.Time  `json:"next_at"`
}

// InventoryEntry is a resource, a workspace, or both, with the verdict.
type InventoryEntry struct {
	Verdict    string     `json:"verdict" enum:"ok,making,going,adopt,orphan,unknown,missing,gone,claimed-missing,contradiction,failed,stopped,vanished,unreadable,drifted"`
	Workspace  string     `json:"workspace,omitempty" doc:"Its name; empty: it has no row"`
	State      string     `json:"state,omitempty" doc:"Of the workspace"`
	Resource   string     `json:"resource,omitempty" doc:"Its name; empty: the provider has nothing"`
	ProviderID string     `json:"provider_id,omitempty"`
	Status     string     `json:"status,omitempty" doc:"Of the resource"`
	Detail     string     `json:"detail,omitempty"`
	Next       string     `json:"next,omitempty" doc:"What follows when two inventories agree on it"`
	Since      *time.Time `json:"since,omitempty" doc:"When an inventory first found it so"`
	Seen       int        `json:"seen,omitempty" doc:"How many inventories in a row have"`
}

// Inventories compares the providers with the database now, or one of them where it is named. It changes nothing.
func (c *Client) Inventories(ctx context.Context, provider string) ([]Inventory, error) {
	return ask[[]Inventory](ctx, c, read("inventory").where(query{"provider": provider}))
}

// Discrepancies is Inventories of one provider without the entries that are as they should be, and at most limit of the
// others; all where it is 0.
func (c *Client) Discrepancies(ctx context.Context, provider string, limit int) ([]Inventory, error) {
	return ask[[]Inventory](ctx, c, read("inventory").where(query{
		"provider": provider, "discrepancies": true, "limit": strconv.Itoa(limit),
	}))
}

// ResumeProvider closes the breaker of a provider.
func (c *Client) ResumeProvider(ctx context.Context, name string) (Provider, error) {
	return ask[Provider](ctx, c, post("providers", name, "resume").repeatable())
}

// ConfirmProvider lets orphans be deleted at a provider.
func (c *Client) ConfirmProvider(ctx context.Context, name string) (Provider, error) {
	return ask[Provider](ctx, c, post("providers", name, "confirm").repeatable())
}
