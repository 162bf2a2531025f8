package claim

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// QuotaExceeded: more workspaces would be claimed at once than may be.
type QuotaExceeded struct {
	Of    string // whose limit it is: user or all, in which template or organization
	Has   int    // claimed now, or waited for
	Asked int
	Limit int
}

func (e *QuotaExceeded) Error() string {
	return fmt.Sprintf("quota exceeded: %s, %d are claimed or waited for and %d asked for", fmt.Sprintf(e.Of, e.Limit), e.Has,
		e.Asked)
}

// withinQuota says whether so many more may be claimed, and has everybody wait who would be counted against the same
// limit until this transaction is through: those that wait are counted, so nobody who is bound later exceeds it.
// Claims that share no limit never meet here.
func withinQuota(ctx context.Context, db database.DBTX, req Request, asked int) error {
	q := claimdb.New(db)
	row, err := q.QuotaOf(ctx, req.PresetID)
	if err != nil {
		return xerrors.Errorf("read quota: %w", err)
	}
	template := uuid.NullUUID{UUID: row.TemplateID, Valid: true}
	limits := []struct {
		limit    *int32
		template uuid.NullUUID
		user     bool
		of       string
	}{
		{row.MaxClaimedPerUser, template, true, "maximum_per_user of template " + row.Template + " is %d"},
		{row.MaxClaimed, template, false, "maximum of claims of template " + row.Template + " is %d"},
		{
			row.OrganizationMaxClaimedPerUser,
			uuid.NullUUID{},
			true,
			"the limit per user in organization " + row.Organization + " is %d",
		},
		{row.OrganizationMaxClaimed, uuid.NullUUID{}, false, "the limit of organization " + row.Organization + " is %d"},
	}
	var names []string
	for _, l := range limits {
		if l.limit != nil {
			names = append(names, lockName(req, l.template, l.user))
		}
	}
	if err := q.LockQuotas(ctx, names); err != nil {
		return xerrors.Errorf("lock quota: %w", err)
	}
	for _, l := range limits {
		if l.limit == nil {
			continue
		}
		var has int32
		var err error
		if l.user {
			has, err = q.CountClaimedOf(ctx, claimdb.CountClaimedOfParams{
				OrganizationID: req.OrganizationID, TemplateID: l.template, UserID: req.UserID,
			})
		} else {
			has, err = viewsdb.New(db).CountClaimed(ctx, viewsdb.CountClaimedParams{
				OrganizationID: req.OrganizationID, TemplateID: l.template,
			})
		}
		if err != nil {
			return xerrors.Errorf("count what is claimed: %w", err)
		}
		if int(has)+asked > int(*l.limit) {
			return &QuotaExceeded{Of: l.of, Has: int(has), Asked: asked, Limit: int(*l.limit)}
		}
	}
	return nil
}

// lockName is the same for all claims that are counted against one limit.
func lockName(req Request, template uuid.NullUUID, user bool) string {
	name := req.OrganizationID.String()
	if template.Valid {
		name = template.UUID.String()
	}
	if user {
		name += " " + req.UserID.String()
	}
	return name
}
