package replica

import (
	"context"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// refreshEvery bounds what a lost hint of changed providers costs.
const refreshEvery = 15 * time.Second

// refreshProviders keeps the registry current until ctx ends.
func (r *Replica) refreshProviders(ctx context.Context) {
	lease.Loop{
		Clock: r.parts.Clock, Log: r.parts.Log.Named("providers"), What: "read providers",
		Tags: []string{"providers", "refresh"}, Every: refreshEvery, Wake: r.providersChanged, Later: true,
	}.Run(ctx, r.Providers.Read)
}

// Configured reads the configured providers of a database.
func Configured(store *database.Store) provider.Source {
	return func(ctx context.Context) ([]provider.Row, error) {
		rows, err := viewsdb.New(store).Providers(ctx)
		if err != nil {
			return nil, xerrors.Errorf("read providers: %w", err)
		}
		have := lists.Of(rows, func(row viewsdb.Provider) provider.Row {
			return provider.Row{Name: row.Name, Kind: row.Kind, Config: row.Config}
		})
		removed, err := viewsdb.New(store).RemovedProviders(ctx)
		if err != nil {
			return nil, xerrors.Errorf("read removed providers: %w", err)
		}
		for _, name := range removed {
			have = append(have, provider.Row{Name: name, Removed: true})
		}
		return have, nil
	}
}
