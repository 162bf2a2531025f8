package api

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/apidb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerQuotas() {
	answer(s, operation{
		id: "list-quotas", method: http.MethodGet, path: "/quotas", action: auth.ActReadQuotas, tag: "quotas",
		summary: "Show how many workspaces may be claimed at once, and how many are",
	}, s.listQuotas)
	answer(s, operation{
		id: "set-quota", method: http.MethodPut, path: "/quotas", action: auth.ActSetQuota, tag: "quotas",
		summary: "Change how many workspaces may be claimed at once",
		description: "By all users of the organization together, and by each of them, over all templates. 0 is any number; " +
			"what is left out stays as it is. What is claimed stays claimed.",
	}, s.setQuota)
}

func (s *server) listQuotas(ctx context.Context, who auth.Identity, _ *none) ([]sdk.Quota, error) {
	row, err := viewsdb.New(s.Store).Quota(ctx, who.OrganizationID)
	if err != nil {
		return nil, xerrors.Errorf("read quota: %w", err)
	}
	quota, err := quotaOf(ctx, s.Store, row)
	if err != nil {
		return nil, err
	}
	return []sdk.Quota{quota}, nil
}

// setQuota changes limits, on the record. Claims in flight are counted against the limit that they have read.
func (s *server) setQuota(ctx context.Context, who auth.Identity, in *body[sdk.QuotaRequest]) (sdk.Quota, error) {
	if in.Body.Maximum == nil && in.Body.MaximumPerUser == nil {
		return sdk.Quota{}, auth.Refuse(auth.ErrInvalid, "say maximum, maximum_per_user or both: 0 is any number")
	}
	var quota sdk.Quota
	err := s.Store.InTx(ctx, database.TxOptions{Label: "set quota"},
		func(ctx context.Context, tx pgx.Tx) error {
			if _, err := database.New(tx).LockOrganization(ctx, who.OrganizationID); err != nil {
				return xerrors.Errorf("lock organization: %w", err)
			}
			before, err := viewsdb.New(tx).Quota(ctx, who.OrganizationID)
			if err != nil {
				return xerrors.Errorf("read quota: %w", err)
			}
			params := apidb.SetQuotaParams{ID: who.OrganizationID}
			if params.MaxClaimed, err = limit("maximum", in.Body.Maximum, before.MaxClaimed); err != nil {
				return err
			}
			params.MaxClaimedPerUser, err = limit("maximum_per_user", in.Body.MaximumPerUser, before.MaxClaimedPerUser)
			if err != nil {
				return err
			}
			after, err := apidb.New(tx).SetQuota(ctx, params)
			if err != nil {
				return xerrors.Errorf("write quota: %w", err)
			}
			if quota, err = quotaOf(ctx, tx, after); err != nil {
				return err
			}
			return auth.Record(ctx, tx, auth.Entry{
				ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: string(auth.ActSetQuota),
				TargetType: "organization", TargetID: who.OrganizationID.String(), TargetName: after.Name,
				Before: limits(before), After: limits(after), Source: who.Source,
			})
		})
	if err != nil {
		return sdk.Quota{}, err
	}
	return quota, nil
}

// limit is what a limit is from now on; nil for any number.
func limit(field string, asked, now *int32) (*int32, error) {
	switch {
	case asked == nil:
		return now, nil
	case *asked < 0:
		return nil, auth.Refuse(auth.ErrInvalid, "%s %d: it must be 1 or more, or 0 for any number", field, *asked)
	case *asked == 0:
		return nil, nil
	}
	return asked, nil
}

func limits(row database.Organization) map[string]any {
	return map[string]any{"maximum": row.MaxClaimed, "maximum_per_user": row.MaxClaimedPerUser}
}

func quotaOf(ctx context.Context, db database.DBTX, row database.Organization) (sdk.Quota, error) {
	claimed, err := viewsdb.New(db).CountClaimed(ctx, row.ID)
	if err != nil {
		return sdk.Quota{}, xerrors.Errorf("count what is claimed: %w", err)
	}
	return sdk.Quota{
		Organization: row.Name, Maximum: row.MaxClaimed, MaximumPerUser: row.MaxClaimedPerUser, Claimed: claimed,
	}, nil
}
