package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"golang.org/x/xerrors"
)

// Provider is a configured place where workspaces live. Its configuration is not shown: it may hold secrets.
type Provider struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind" example:"local"`
	Can   []string `json:"can" doc:"What it can do beyond making and deleting: exec, logs, logs-making (also while a workspace is made), stop, reset, agent, handover"`
	Error string   `json:"error,omitempty" doc:"Why it does not work on this replica"`

	Protocol string `json:"protocol,omitempty" doc:"Version of the protocol that is spoken with its executable" example:"v0.1.1"`
	Schema   bool   `json:"schema,omitempty" doc:"Its executable says what of a spec it understands"`
	NoAgent  string `json:"no_agent,omitempty" doc:"Why no agent can be installed there, and what to do"`

	DeletedAt *time.Time `json:"deleted_at,omitempty" doc:"Nothing is created there since; it is listed until nothing is left there"`

	Allows []string `json:"allows,omitempty" doc:"What an owner lets its templates open to others: enter, public_ports"`

	Confirmed bool     `json:"confirmed" doc:"Orphans are deleted there; else they are only shown"`
	Breaker   *Breaker `json:"breaker,omitempty" doc:"Present while it is open: nothing is created or deleted there"`

	Limits    ProviderLimits  `json:"limits"`
	Claimed   int             `json:"claimed" doc:"Workspaces there that somebody has"`
	Unclaimed int             `json:"unclaimed" doc:"Workspaces there that nobody has, whatever their state"`
	Creating  int             `json:"creating" doc:"Creates in flight"`
	Reserves  bool            `json:"reserves" doc:"Its machines exist beforehand"`
	Sites     []SiteInventory `json:"sites" doc:"How its inventories stand; one where it has no sites, none before the first"`
}

// ProviderLimits bound what is made at a provider, and when its breaker opens.
type ProviderLimits struct {
	Maximum         int    `json:"maximum" doc:"Live workspaces; 0: no limit"`
	CreatesInFlight int    `json:"creates_in_flight" doc:"Creates at once"`
	Chunk           int    `json:"chunk" doc:"Creates of one pass"`
	CreateEvery     string `json:"create_every,omitempty" doc:"One create each, such as 5s; empty: as fast as it can" example:"5s"`
	CreateBurst     int    `json:"create_burst" doc:"Creates that may go ahead of that rate"`
	InventoryEvery  string `json:"inventory_every" example:"1m0s"`
	BreakerCount    int    `json:"breaker_count" doc:"Discrepancies that open the breaker, where they are also that many per cent"`
	BreakerPercent  int    `json:"breaker_percent"`
	BreakerErrors   int    `json:"breaker_errors" doc:"Per cent of calls whose failure opens it"`
}

// SiteInventory is how the last inventory of a provider ended, at one site where it has sites.
type SiteInventory struct {
	Site    string         `json:"site,omitempty"`
	Breaker *Breaker       `json:"breaker,omitempty" doc:"Present while it is open"`
	Last    *LastInventory `json:"last,omitempty" doc:"None has ended yet where it is left out"`
}

// CheckRequest says of what a check makes its workspaces: of a preset, or where both are empty of the first one of the
// provider's templates.
type CheckRequest struct {
	Template string `json:"template,omitempty" maxLength:"64"`
	Preset   string `json:"preset,omitempty" maxLength:"64"`
}

// CheckVerdict is what came of one case of a check.
type CheckVerdict struct {
	Case    string `json:"case" example:"CreateTwiceIsOne"`
	About   string `json:"about" doc:"What holds if it passed"`
	Outcome string `json:"outcome" enum:"passed,failed,not_offered"`
	Nicer   bool   `json:"nicer,omitempty" doc:"The provider is safe to use without it"`
	Detail  string `json:"detail,omitempty" doc:"Of a failure"`
	TookMS  int64  `json:"took_ms"`
}

// Providers lists the configured providers.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	return get[[]Provider](ctx, c, "providers")
}

// DeleteProvider deletes a provider, with force also while templates use it. What is left there goes on.
func (c *Client) DeleteProvider(ctx context.Context, name string, force bool) (Provider, error) {
	return ask[Provider](ctx, c, remove("providers", name).where(query{"force": force}).repeatable())
}

// CheckProvider runs the safe cases of the provider contract and calls report with each verdict as it comes. Ending ctx
// ends the check, after what it made is deleted.
func (c *Client) CheckProvider(ctx context.Context, name string, req CheckRequest, report func(CheckVerdict) error) error {
	resp, err := c.send(ctx, post("providers", name, "check").with(req))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := json.NewDecoder(resp.Body); ; {
		var v CheckVerdict
		if err := lines.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return xerrors.Errorf("read verdicts of provider %s: %w", name, err)
		}
		if err := report(v); err != nil {
			return err
		}
	}
}
