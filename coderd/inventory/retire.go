package inventory

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

const (
	// graceOfForced is how long a provider that was deleted by force, and has no workspace left, is still inventoried, so that
	// what is left there is swept if it answers.
	graceOfForced = 10 * time.Minute
	// mostResources bounds what the record of a retirement names.
	mostResources = 2000
)

// Retire ends deleted providers that have nothing left: they are listed, counted and inventoried no more. The resources that
// one was retired with are on record.
func (s *Service) Retire(ctx context.Context) error {
	var retired []inventorydb.RetireProvidersRow
	err := s.Store.InTx(ctx, database.TxOptions{Label: "retire providers"},
		func(ctx context.Context, tx pgx.Tx) (err error) {
			q := inventorydb.New(tx)
			retired, err = q.RetireProviders(ctx, inventorydb.RetireProvidersParams{GraceS: graceOfForced.Seconds(), Most: mostResources})
			if err != nil {
				return xerrors.Errorf("retire providers: %w", err)
			}
			for _, row := range retired {
				reason := "it was deleted, and nothing is left there"
				if row.Forced {
					reason = "it was deleted by force, and no workspace is left there"
				}
				err := q.RecordProviderAct(ctx, inventorydb.RecordProviderActParams{
					ActorID: workspaces.Prewarm, Action: "provider.retire", Provider: row.Name, Before: row.Resources, Source: s.Replica,
					Reason: reason,
				})
				if err != nil {
					return xerrors.Errorf("record that provider is retired: %w", err)
				}
			}
			return nil
		})
	if err != nil || len(retired) == 0 {
		return err
	}
	for _, row := range retired {
		s.Log.Info(ctx, "provider retired", slog.F("provider", row.Name), slog.F("forced", row.Forced),
			slog.F("resources_left", string(row.Resources)))
	}
	s.Hints.ProvidersChanged()
	return nil
}
