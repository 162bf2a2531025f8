package api

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Inventories compares a provider with the database, and changes nothing; *inventory.Service does.
type Inventories interface {
	Look(ctx context.Context, provider string, tell func(inventory.Judged)) (site string, err error)
}

func (s *server) registerInventory() {
	answer(s, operation{
		id: "list-inventories", method: http.MethodGet, path: "/inventory", action: auth.ActReadProviders, tag: "providers",
		summary: "Compare providers with the database",
		description: "Asks both sides now, and shows each with a verdict and what would follow. Nothing is done about it. A " +
			"provider with sites is compared at the site of the replica that answers.",
	}, s.listInventories)
	answer(s, operation{
		id: "resume-provider", method: http.MethodPost, path: "/providers/{provider}/resume", action: auth.ActResumeProvider,
		tag: "providers", summary: "Close the breaker of a provider",
		description: "Creates and deletes go on there. It is no error if the breaker is closed.",
	}, s.resumeProvider)
	answer(s, operation{
		id: "confirm-provider", method: http.MethodPost, path: "/providers/{provider}/confirm",
		action: auth.ActConfirmProvider, tag: "providers", summary: "Let orphans be deleted at a provider",
		description: "Until then inventories only show what they would delete there. Nothing takes it back.",
	}, s.confirmProvider)
}

type inventoryInput struct {
	Provider string `query:"provider" doc:"Only this one"`

	Discrepancies bool  `query:"discrepancies" doc:"Leave out what is as it should be"`
	Limit         int32 `query:"limit" minimum:"0" maximum:"100000" doc:"At most so many entries of each provider; all where 0"`
}

func (s *server) listInventories(ctx context.Context, _ auth.Identity, in *inventoryInput) ([]sdk.Inventory, error) {
	if in.Provider != "" {
		if err := s.checkProvider(ctx, in.Provider); err != nil {
			return nil, err
		}
	}
	providers, err := viewsdb.New(s.Store).Providers(ctx)
	if err != nil {
		return nil, xerrors.Errorf("list providers: %w", err)
	}
	stand, err := viewsdb.New(s.Store).Inventories(ctx)
	if err != nil {
		return nil, xerrors.Errorf("list inventories: %w", err)
	}
	list := []sdk.Inventory{}
	for _, p := range providers {
		if in.Provider != "" && p.Name != in.Provider {
			continue
		}
		now := sdk.Inventory{
			Provider: p.Name, Confirmed: p.ConfirmedAt != nil, Entries: []sdk.InventoryEntry{}, Counts: map[string]int{},
		}
		site, err := s.Inventory.Look(ctx, p.Name, func(j inventory.Judged) {
			now.Counts[string(j.Verdict)]++
			if in.Discrepancies && !j.Verdict.Amiss() || in.Limit > 0 && len(now.Entries) >= int(in.Limit) {
				return
			}
			now.Entries = append(now.Entries, entryOf(j))
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			now.Error, now.Entries, now.Counts = err.Error(), []sdk.InventoryEntry{}, map[string]int{}
		}
		now.Site = site
		for _, row := range stand {
			switch {
			case row.Provider != p.Name:
			case row.Site == site:
				now.Breaker, now.Last = breakerOf(row), lastOf(row)
			default: // another replica's
				list = append(list, sdk.Inventory{
					Provider: p.Name, Site: row.Site, Confirmed: now.Confirmed, Breaker: breakerOf(row), Last: lastOf(row),
					Error: "this replica does not reach that site", Entries: []sdk.InventoryEntry{}, Counts: map[string]int{},
				})
			}
		}
		list = append(list, now)
	}
	return list, nil
}

func entryOf(j inventory.Judged) sdk.InventoryEntry {
	e := sdk.InventoryEntry{Verdict: string(j.Verdict), Detail: j.Detail, Next: j.Next, Seen: j.Seen}
	if j.Workspace != nil {
		e.Workspace, e.State = j.Workspace.Name, string(j.Workspace.State)
	}
	if j.Resource != nil {
		e.Resource, e.ProviderID, e.Status = j.Resource.Name, j.Resource.ProviderID, string(j.Resource.Status)
	}
	if !j.Since.IsZero() {
		e.Since = &j.Since
	}
	return e
}

func breakerOf(row viewsdb.InventoriesRow) *sdk.Breaker {
	if row.OpenedAt == nil {
		return nil
	}
	return &sdk.Breaker{Reason: row.Reason, Since: *row.OpenedAt, Clean: int(row.Clean), CloseAt: int(row.BreakerClean)}
}

func lastOf(row viewsdb.InventoriesRow) *sdk.LastInventory {
	if row.EndedAt == nil {
		return nil
	}
	return &sdk.LastInventory{
		EndedAt: *row.EndedAt, Outcome: row.Outcome, Error: row.Error, CompleteAt: row.CompleteAt,
		Resources: int(row.Resources), Workspaces: int(row.Workspaces), Discrepancies: int(row.Discrepancies), NextAt: row.DueAt,
	}
}

type providerInput struct {
	Provider string `path:"provider" doc:"Name of the provider"`
}

// resumeProvider closes the breaker, and has everything go on that waited for it.
func (s *server) resumeProvider(ctx context.Context, who auth.Identity, in *providerInput) (sdk.Provider, error) {
	if err := s.checkProvider(ctx, in.Provider); err != nil {
		return sdk.Provider{}, err
	}
	err := s.Store.InTx(ctx, database.TxOptions{Label: "resume provider"},
		func(ctx context.Context, tx pgx.Tx) error {
			closed, err := inventory.CloseBreakers(ctx, tx, in.Provider)
			if err != nil {
				return xerrors.Errorf("close breaker: %w", err)
			}
			for _, row := range closed {
				err := auth.Record(ctx, tx, auth.Entry{
					ActorID: who.UserID, Action: string(auth.ActResumeProvider), TargetType: "provider", TargetID: in.Provider,
					TargetName: in.Provider, Before: map[string]string{"site": row.Site, "reason": row.Reason}, Source: who.Source,
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return sdk.Provider{}, err
	}
	if err := s.nudgeScope(ctx, database.PauseScopeProvider, in.Provider); err != nil {
		return sdk.Provider{}, err
	}
	s.Hints.WakeHere()
	return s.providerNamed(ctx, who, in.Provider)
}

func (s *server) confirmProvider(ctx context.Context, who auth.Identity, in *providerInput) (sdk.Provider, error) {
	if err := s.checkProvider(ctx, in.Provider); err != nil {
		return sdk.Provider{}, err
	}
	err := s.Store.InTx(ctx, database.TxOptions{Label: "confirm provider"},
		func(ctx context.Context, tx pgx.Tx) error {
			n, err := inventory.ConfirmProvider(ctx, tx, in.Provider)
			if err != nil {
				return xerrors.Errorf("confirm provider: %w", err)
			}
			if n == 0 {
				return nil // it is already
			}
			return auth.Record(ctx, tx, auth.Entry{
				ActorID: who.UserID, Action: string(auth.ActConfirmProvider), TargetType: "provider", TargetID: in.Provider,
				TargetName: in.Provider, Source: who.Source,
			})
		})
	if err != nil {
		return sdk.Provider{}, err
	}
	return s.providerNamed(ctx, who, in.Provider)
}

func (s *server) providerNamed(ctx context.Context, who auth.Identity, name string) (sdk.Provider, error) {
	all, err := s.listProviders(ctx, who, &none{})
	if err != nil {
		return sdk.Provider{}, err
	}
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
	}
	return sdk.Provider{}, s.checkProvider(ctx, name)
}
