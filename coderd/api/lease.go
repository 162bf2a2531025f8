package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type renewInput struct {
	WorkspaceRef
	Body *sdk.RenewRequest // none: as long as it was asked for at first
}

func (s *server) renewWorkspace(ctx context.Context, who auth.Identity, in *renewInput) (sdk.Workspace, error) {
	lease, err := claimDuration("lease", database.OrZero(in.Body).Lease, 0, time.Second, maxLease)
	if err != nil {
		return sdk.Workspace{}, err
	}
	row, err := s.findWorkspace(ctx, who, auth.ActRenewLease, in.Ref)
	if err != nil {
		return sdk.Workspace{}, err
	}
	if row.State != database.WorkspaceStateClaimed {
		return sdk.Workspace{}, xerrors.Errorf("renew: %w", workspaces.ErrNotClaimed)
	}
	var until *time.Time
	err = s.Store.InTx(ctx, database.TxOptions{Label: "renew lease"},
		func(ctx context.Context, tx pgx.Tx) error {
			var err error
			until, err = workspaces.RenewLease(ctx, tx, workspaces.RenewLeaseParams{
				ClaimID: row.ClaimID.UUID, LeaseS: database.OrNull(int32(lease / time.Second)),
			})
			if err != nil {
				return xerrors.Errorf("write lease: %w", err)
			}
			return auth.Record(ctx, tx, auth.Entry{
				ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: string(auth.ActRenewLease),
				TargetType: "workspace", TargetID: row.ID.String(), TargetName: row.Name,
				Before: map[string]any{"lease_until": row.LeaseUntil}, After: map[string]any{"lease_until": until},
				Source: who.Source,
			})
		})
	switch {
	case database.NoRows(err) && row.LeaseUntil == nil && lease == 0:
		return sdk.Workspace{}, auth.Refuse(auth.ErrConflict, "the claim of workspace %s has no lease to renew: say how long it is to last",
			row.Name)
	case database.NoRows(err):
		return sdk.Workspace{}, xerrors.Errorf("renew: %w", workspaces.ErrNotClaimed)
	case err != nil:
		return sdk.Workspace{}, xerrors.Errorf("renew lease: %w", err)
	}
	row.LeaseUntil = until
	return workspaceOf(who, row)
}

// receipt is what is known of how long the claim of a workspace took; nil where there is nothing to tell.
func (s *server) receipt(ctx context.Context, claimID uuid.UUID) (*sdk.Receipt, error) {
	row, err := viewsdb.New(s.Store).ClaimReceipt(ctx, claimID)
	if database.NoRows(err) {
		return nil, nil //nolint:nilnil // There is no claim (any more).
	}
	if err != nil {
		return nil, xerrors.Errorf("read receipt: %w", err)
	}
	return storedReceipt(row), nil
}

// storedReceipt is a receipt as far as it is on record; nil of a hit without an agent, and of a miss.
func storedReceipt(row viewsdb.ClaimReceiptRow) *sdk.Receipt {
	var r sdk.Receipt
	if o := database.OrZero(row.Outcome); o == database.ClaimOutcomeWaited || o == database.ClaimOutcomeCold {
		r.WaitMS = rounded(row.WaitMs)
	}
	if row.Told {
		r.ToldMS = rounded(row.ToldMs)
	}
	if row.Ready {
		r.HookMS = rounded(row.HookMs)
	}
	if r == (sdk.Receipt{}) {
		return nil
	}
	return &r
}

func rounded(ms float64) *float64 { return inMS(time.Duration(ms * float64(time.Millisecond))) }
