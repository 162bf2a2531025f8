package templates

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// The states of a template, for the record.
const (
	active     = "active"
	deprecated = "deprecated"
	deleted    = "deleted"
)

// Deprecate scales a template's pools to zero and refuses claims (C4); what is claimed stays. Undeprecate takes it
// back. Delete is for ever: the name is free for a new template, and claimed workspaces stay until they are released.
//
// Each returns the template, which needs a nudge then, and uuid.Nil where nothing was to be done. A template that does
// not exist is an *auth.Refusal of kind ErrNotFound, which names those that do.
func (s *Service) Deprecate(ctx context.Context, by auth.Identity, name string) (uuid.UUID, error) {
	return s.retire(ctx, by, name, "template.deprecate", deprecated, (*templatesdb.Queries).DeprecateTemplate)
}

// Undeprecate is the opposite of Deprecate.
func (s *Service) Undeprecate(ctx context.Context, by auth.Identity, name string) (uuid.UUID, error) {
	return s.retire(ctx, by, name, "template.undeprecate", active, (*templatesdb.Queries).UndeprecateTemplate)
}

// Delete deletes a template and its presets; see Deprecate.
func (s *Service) Delete(ctx context.Context, by auth.Identity, name string) (uuid.UUID, error) {
	return s.retire(ctx, by, name, "template.delete", deleted,
		func(q *templatesdb.Queries, ctx context.Context, id uuid.UUID) error {
			if err := q.DeletePresetsOf(ctx, id); err != nil {
				return err
			}
			return q.DeleteTemplate(ctx, id)
		})
}

func (s *Service) retire(
	ctx context.Context, by auth.Identity, name, action, to string,
	write func(*templatesdb.Queries, context.Context, uuid.UUID) error,
) (id uuid.UUID, err error) {
	err = s.Store.InTx(ctx, database.TxOptions{Label: "write " + action},
		func(ctx context.Context, tx pgx.Tx) error {
			id = uuid.Nil
			row, err := lockTemplate(ctx, tx, by.OrganizationID, name)
			if err != nil {
				return err
			}
			from := active
			if row.DeprecatedAt != nil {
				from = deprecated
			}
			if from == to {
				return nil
			}
			if err := write(templatesdb.New(tx), ctx, row.ID); err != nil {
				return xerrors.Errorf("mark template %s: %w", to, err)
			}
			id = row.ID
			return auth.Record(ctx, tx, auth.Entry{
				ActorID: by.UserID, OrganizationID: by.OrganizationID, Action: action, TargetType: "template",
				TargetID: id.String(), TargetName: name, Source: by.Source,
				Before: map[string]string{"state": from}, After: map[string]string{"state": to},
			})
		})
	if err != nil {
		return uuid.Nil, err
	}
	return id, nil
}

// UnknownTemplate is the refusal of a template that is not there. It names those that are.
func UnknownTemplate(ctx context.Context, db database.DBTX, organization uuid.UUID, name string) error {
	names, err := viewsdb.New(db).TemplateNames(ctx, organization)
	if err != nil {
		return xerrors.Errorf("list templates: %w", err)
	}
	return auth.Refuse(auth.ErrNotFound, "there is no template %q%s", name, Known(name, names, "template"))
}

// Known ends a message about a name that does not exist: with the one meant, if one is near, and those there are.
func Known(name string, names []string, what string) string {
	if len(names) == 0 {
		with := "apply -f FILE"
		switch what {
		case "forge":
			with = "forge add"
		case "credential":
			with = "forge credential add"
		}
		return ": there is no " + what + " yet; `prewarm " + with + "` makes them"
	}
	return DidYouMean(name, names) + ": " + thereAre(names)
}

// thereAre says which names there are, in order, and of many the first.
func thereAre(names []string) string {
	const most = 10
	names = slices.Sorted(slices.Values(names))
	switch {
	case len(names) == 0:
		return "there are none yet"
	case len(names) == 1:
		return "there is only " + names[0]
	case len(names) > most:
		return "there are " + strings.Join(names[:most], ", ") + ", …"
	}
	return "there are " + strings.Join(names, ", ")
}
