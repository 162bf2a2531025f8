package templates

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// mostLeft bounds the resources that the record of a deletion names. Their number is never cut.
const mostLeft = 2000

// left is what was at a provider when it was deleted, for the record.
type left struct {
	Forced     bool                                 `json:"forced"`
	Templates  []string                             `json:"templates,omitempty"`  // that used it
	Workspaces map[string]int                       `json:"workspaces,omitempty"` // by state
	Resources  []templatesdb.ResourcesAtProviderRow `json:"resources,omitempty"`  // at most mostLeft
}

// DeleteProvider deletes a provider, in the transaction of whoever also sees to its jobs and pauses: nothing is created there
// any more, and pools on it should have no prebuilds. Once nothing is left there, inventory.Service retires it. An apply that
// declares it takes the deletion back.
//
// While templates use it, or workspaces live there, that is refused (ErrConflict) with their names, unless force is set. Then
// what its prebuilds have at the provider is deleted if the provider does so at once, and given up if it does not; what is
// claimed stays until it is released. Force may be given later, to a provider that is deleted already.
//
// affected are the templates that need a nudge. deleted is false where nothing was to be done.
func DeleteProvider(
	ctx context.Context, db database.DBTX, by auth.Identity, name string, force bool,
) (affected []uuid.UUID, deleted bool, err error) {
	q := templatesdb.New(db)
	rows, err := q.LockProviders(ctx, []string{name})
	if err != nil {
		return nil, false, xerrors.Errorf("lock provider: %w", err)
	}
	if len(rows) == 0 || rows[0].EmptiedAt != nil {
		return nil, false, UnknownProvider(ctx, db, name)
	}
	if rows[0].DeletedAt != nil && (rows[0].DeleteForced || !force) {
		return nil, false, nil
	}
	users, err := q.TemplatesUsing(ctx, name)
	if err != nil {
		return nil, false, xerrors.Errorf("read templates of provider: %w", err)
	}
	living, err := q.LeftAtProvider(ctx, name)
	if err != nil {
		return nil, false, xerrors.Errorf("count workspaces of provider: %w", err)
	}
	there := left{Forced: force, Templates: usedBy(by.OrganizationID, users), Workspaces: map[string]int{}}
	for _, row := range living {
		there.Workspaces[row.State] += int(row.Workspaces)
		affected = append(affected, row.ID)
	}
	if !force && len(users)+len(living) > 0 {
		return nil, false, inUse(name, there.Templates, livingAt(by.OrganizationID, living))
	}
	there.Resources, err = q.ResourcesAtProvider(ctx, templatesdb.ResourcesAtProviderParams{Provider: name, Most: mostLeft})
	if err != nil {
		return nil, false, xerrors.Errorf("read resources of provider: %w", err)
	}
	if err := q.DeleteProvider(ctx, templatesdb.DeleteProviderParams{Name: name, IsForced: force}); err != nil {
		return nil, false, xerrors.Errorf("mark provider deleted: %w", err)
	}
	for _, row := range users {
		affected = append(affected, row.ID)
	}
	slices.SortFunc(affected, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(affected), true, auth.Record(ctx, db, auth.Entry{
		ActorID: by.UserID, Action: string(auth.ActDeleteProvider), TargetType: "provider", TargetID: name,
		TargetName: name, Source: by.Source, Before: map[string]string{"kind": rows[0].Kind}, After: there,
	})
}

// inUse refuses the deletion of a provider that is in use.
func inUse(name string, templates, living []string) error {
	var use, ways []string
	if len(templates) > 0 {
		use = append(use, "is used by "+strings.Join(templates, ", "))
		ways = append(ways, "apply the templates with another provider or delete them")
	}
	if len(living) > 0 {
		use = append(use, "has "+strings.Join(living, ", "))
		ways = append(ways, "wait until the workspaces are gone")
	}
	return auth.Refuse(auth.ErrConflict, "provider %s %s: %s; with force it is deleted all the same, and what is left there is given up",
		name, strings.Join(use, ", and "), strings.Join(ways, ", and "))
}

// usedBy names templates with their active versions, those of other organizations by their number only.
func usedBy(organization uuid.UUID, rows []templatesdb.TemplatesUsingRow) []string {
	var names []string
	others := 0
	for _, row := range rows {
		if row.OrganizationID != organization {
			others++
			continue
		}
		names = append(names, fmt.Sprintf("template %s (version %d)", row.Name, row.Version))
	}
	if others > 0 {
		names = append(names, fmt.Sprintf("templates of other organizations (%d)", others))
	}
	return names
}

// livingAt counts the workspaces of each version; those of other organizations as one.
func livingAt(organization uuid.UUID, rows []templatesdb.LeftAtProviderRow) []string {
	type counts struct{ claimed, unclaimed int }
	var order []string
	of := map[string]counts{}
	for _, row := range rows {
		whose := fmt.Sprintf("template %s version %d", row.Template, row.Version)
		if row.OrganizationID != organization {
			whose = "other organizations"
		}
		c, known := of[whose]
		if !known {
			order = append(order, whose)
		}
		if row.State == string(database.WorkspaceStateClaimed) {
			c.claimed += int(row.Workspaces)
		} else {
			c.unclaimed += int(row.Workspaces)
		}
		of[whose] = c
	}
	for i, whose := range order {
		order[i] = fmt.Sprintf("workspaces of %s (%d claimed, %d unclaimed)", whose, of[whose].claimed, of[whose].unclaimed)
	}
	return order
}

// UnknownProvider is the refusal of a provider that is not there. It names those that are.
func UnknownProvider(ctx context.Context, db database.DBTX, name string) error {
	rows, err := viewsdb.New(db).Providers(ctx)
	if err != nil {
		return xerrors.Errorf("list providers: %w", err)
	}
	names := lists.Of(rows, func(row viewsdb.Provider) string { return row.Name })
	return auth.Refuse(auth.ErrNotFound, "there is no provider %q%s", name, Known(name, names, "provider"))
}

// deletedProvider refuses templates on a provider that is deleted. rows are locked, so that none is deleted meanwhile.
func deletedProvider(rows []database.Provider, name string) error {
	row := providerNamed(rows, name)
	if row == nil || row.DeletedAt == nil {
		return nil
	}
	return auth.Refuse(auth.ErrConflict, "provider %s was deleted %s: declare it under providers to have it again, or take another",
		name, row.DeletedAt.UTC().Format(time.RFC3339))
}
