package templates

import (
	"context"
	"encoding/json"
	"slices"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// providerState is what a provider's row says, for comparison and for the record.
type providerState struct {
	Kind            string          `json:"kind"`
	Config          json.RawMessage `json:"config"`
	Maximum         int32           `json:"maximum"`
	CreatesInFlight int32           `json:"creates_in_flight"`
	Chunk           int32           `json:"chunk"`
}

func (a *applying) providers(ctx context.Context, providers []Provider) error {
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.Name
	}
	rows, err := a.q.LockProviders(ctx, names)
	if err != nil {
		return xerrors.Errorf("lock providers: %w", err)
	}
	for _, p := range providers {
		i := slices.IndexFunc(rows, func(r database.Provider) bool { return r.Name == p.Name })
		var row *database.Provider
		if i >= 0 {
			row = &rows[i]
		}
		if err := a.provider(ctx, p, row); err != nil {
			return xerrors.Errorf("apply provider %s: %w", p.Name, err)
		}
	}
	return nil
}

func (a *applying) provider(ctx context.Context, p Provider, row *database.Provider) error {
	config, err := canonical(p.Config)
	if err != nil {
		return err
	}
	after := providerState{p.Kind, config, p.Maximum, p.CreatesInFlight, p.Chunk}
	change := sdk.Change{Kind: "provider", Name: p.Name, Action: "create"}
	var before any
	if row != nil {
		if row.Kind != p.Kind {
			return kindChanged(a.doc, p, row.Kind)
		}
		stored, err := canonical(row.Config)
		if err != nil {
			return err
		}
		old := providerState{row.Kind, stored, row.Maximum, row.CreatesInFlight, row.Chunk}
		change.Action, before = "update", old
		change.Fields = append(jsonFields("config", old.Config, after.Config),
			fields(
				field{"maximum", old.Maximum, after.Maximum},
				field{"creates_in_flight", old.CreatesInFlight, after.CreatesInFlight},
				field{"chunk", old.Chunk, after.Chunk},
			)...)
		if len(change.Fields) == 0 {
			return nil
		}
	}
	err = a.q.UpsertProvider(ctx, database.UpsertProviderParams{
		Name: p.Name, Kind: p.Kind, Config: config, Maximum: p.Maximum, CreatesInFlight: p.CreatesInFlight, Chunk: p.Chunk,
	})
	if err != nil {
		return xerrors.Errorf("write provider: %w", err)
	}
	if row != nil {
		affected, err := a.q.TemplatesInScope(ctx, database.TemplatesInScopeParams{
			Scope: database.PauseScopeProvider, Target: p.Name,
		})
		if err != nil {
			return xerrors.Errorf("find templates of provider: %w", err)
		}
		for _, id := range affected {
			a.affected[id] = true
		}
	}
	return a.changed(ctx, change, p.Name, before, after)
}
