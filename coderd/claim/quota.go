package claim

import (
	"context"
	"fmt"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
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

// withinQuota says whether so many more may be claimed. What exceeds a limit already is refused at once; else it has
// everybody wait who would be counted against the same limit until this transaction is through, and counts again: those
// that wait are counted, so nobody who is bound later exceeds it. Claims that share no limit never meet here.
func withinQuota(ctx context.Context, db database.DBTX, req Request, asked int) error {
	limits, err := limitsOf(ctx, db, req, asked)
	if err != nil {
		return err
	}
	names := lists.Of(limits, func(l claimdb.QuotasOfRow) string { return lockName(req, l) })
	if err := claimdb.New(db).LockQuotas(ctx, names); err != nil {
		return xerrors.Errorf("lock quota: %w", err)
	}
	_, err = limitsOf(ctx, db, req, asked)
	return err
}

// limitsOf returns the limits that hold for a claim, or QuotaExceeded by what is claimed now.
func limitsOf(ctx context.Context, db database.DBTX, req Request, asked int) ([]claimdb.QuotasOfRow, error) {
	limits, err := claimdb.New(db).QuotasOf(ctx, claimdb.QuotasOfParams{UserID: req.UserID, PresetID: req.PresetID})
	if err != nil {
		return nil, xerrors.Errorf("count what is claimed: %w", err)
	}
	for _, l := range limits {
		if int(l.Has)+asked > int(l.Maximum) {
			return nil, &QuotaExceeded{Of: limitName(l), Has: int(l.Has), Asked: asked, Limit: int(l.Maximum)}
		}
	}
	return limits, nil
}

func limitName(l claimdb.QuotasOfRow) string {
	switch {
	case l.OfTemplate && l.OfUser:
		return "maximum_per_user of template " + l.Template + " is %d"
	case l.OfTemplate:
		return "maximum of claims of template " + l.Template + " is %d"
	case l.OfUser:
		return "the limit per user in organization " + l.Organization + " is %d"
	}
	return "the limit of organization " + l.Organization + " is %d"
}

// lockName is the same for all claims that are counted against one limit.
func lockName(req Request, l claimdb.QuotasOfRow) string {
	name := req.OrganizationID.String()
	if l.OfTemplate {
		name = l.TemplateID.String()
	}
	if l.OfUser {
		name += " " + req.UserID.String()
	}
	return name
}
