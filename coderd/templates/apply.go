package templates

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Service applies configuration.
type Service struct {
	Store       *database.Store
	NewProvider NewProvider
	Archives    Archives
	Clock       quartz.Clock // nil: the real one
}

func (s *Service) clock() quartz.Clock {
	return cmp.Or(s.Clock, quartz.NewReal())
}

// Request is a file to apply. By is who applies it, in which organization.
type Request struct {
	By     auth.Identity
	File   string
	Source string
	DryRun bool
	// Inspect, if any, looks at the state with the changes made, before they are committed or rolled back; in a dry run it
	// sees all of it at one instant. Its error is the apply's, and then nothing is changed. It may run more than once.
	Inspect func(ctx context.Context, db database.DBTX, changes []sdk.Change) error

	reruns int
}

// mostReruns of an inspected dry run that does not see what others made at that moment.
const mostReruns = 3

// Result is what an apply changed, or a dry run would change.
type Result struct {
	Changes []sdk.Change
	// Templates need a pass. Nudge them after the commit, which has happened when Apply returns; a dry run has none.
	Templates []uuid.UUID
}

var errDryRun = errors.New("dry run")

// Apply makes the configuration what the file says. The error is *Problems (found by errors.As) where the file is at
// fault; then nothing is changed.
func (s *Service) Apply(ctx context.Context, req Request) (Result, error) {
	problems := &Problems{File: req.File}
	doc, err := parseAlone(ctx, s.clock(), req.File, req.Source, problems)
	if err != nil {
		return Result{}, err
	}
	existing, err := viewsdb.New(s.Store).ProvidersEver(ctx)
	if err != nil {
		return Result{}, xerrors.Errorf("read providers: %w", err)
	}
	if err := mayApply(req.By, doc, existing); err != nil {
		return Result{}, err
	}
	named := check(ctx, doc, existing, s.NewProvider, problems)
	if err := s.checkArchives(ctx, req.By.OrganizationID, named, problems); err != nil {
		return Result{}, err
	}
	entities, err := forgesOf(ctx, s.Store, req.By.OrganizationID)
	if err != nil {
		return Result{}, err
	}
	entities.check(doc, problems)
	if err := problems.err(); err != nil {
		return Result{}, err
	}

	var a *applying
	opts := database.TxOptions{Label: "apply configuration"}
	if req.Inspect != nil && req.DryRun {
		// One instant for all. Not where it is meant: there the organization's lock must show what others applied meanwhile.
		opts.Isolation = pgx.RepeatableRead
	}
	err = s.Store.InTx(ctx, opts,
		func(ctx context.Context, tx pgx.Tx) error {
			a = &applying{db: tx, doc: doc, by: req.By, affected: map[uuid.UUID]bool{}, result: Result{Changes: []sdk.Change{}}}
			if err := a.run(ctx); err != nil {
				return err
			}
			if req.Inspect != nil {
				if err := req.Inspect(ctx, tx, a.result.Changes); err != nil {
					return err
				}
			}
			if req.DryRun {
				return errDryRun
			}
			return nil
		})
	switch {
	case errors.Is(err, errDryRun):
		return Result{Changes: a.result.Changes}, nil
	case opts.Isolation == pgx.RepeatableRead && database.IsUniqueViolation(err) && req.reruns < mostReruns:
		req.reruns++
		return s.Apply(ctx, req)
	case err != nil:
		return Result{}, err
	}
	a.result.Templates = slices.SortedFunc(maps.Keys(a.affected), func(x, y uuid.UUID) int {
		return cmp.Compare(x.String(), y.String())
	})
	return a.result, nil
}

// applying is one apply inside of its transaction.
type applying struct {
	db       database.DBTX
	doc      *Document
	by       auth.Identity
	forges   forges
	affected map[uuid.UUID]bool
	result   Result
	note     string // the effect of a change to the template at hand that has no other effect
}

// run locks everything that the document names, in the order that all applies lock in, then compares and writes.
func (a *applying) run(ctx context.Context) error {
	if _, err := database.New(a.db).LockOrganization(ctx, a.by.OrganizationID); err != nil {
		return xerrors.Errorf("lock organization: %w", err)
	}
	providers, templates := slices.Clone(a.doc.Providers), slices.Clone(a.doc.Templates)
	slices.SortFunc(providers, func(x, y Provider) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(templates, func(x, y Template) int { return cmp.Compare(x.Name, y.Name) })
	if err := a.lockForges(ctx); err != nil {
		return err
	}
	if err := a.providers(ctx, providers); err != nil {
		return err
	}
	names := lists.Of(templates, func(t Template) string { return t.Name })
	rows, err := templatesdb.New(a.db).LockTemplates(ctx, templatesdb.LockTemplatesParams{OrganizationID: a.by.OrganizationID, Names: names})
	if err != nil {
		return xerrors.Errorf("lock templates: %w", err)
	}
	for _, t := range templates {
		row := find(rows, func(r *database.Template) bool { return r.Name == t.Name })
		if err := a.template(ctx, t, row); err != nil {
			return xerrors.Errorf("apply template %s: %w", t.Name, err)
		}
	}
	return nil
}

// find is the first that is meant, nil where there is none.
func find[T any](all []T, is func(*T) bool) *T {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// changed notes a change and records it.
func (a *applying) changed(ctx context.Context, change sdk.Change, id string, before, after any) error {
	if change.Effect == "" && change.Kind != "provider" {
		change.Effect = a.note
	}
	a.result.Changes = append(a.result.Changes, change)
	entry := auth.Entry{
		ActorID: a.by.UserID, OrganizationID: a.by.OrganizationID, Action: change.Kind + "." + change.Action,
		TargetType: change.Kind, TargetID: id, TargetName: change.Name, Before: before, After: after, Source: a.by.Source,
	}
	if a.doc.File != "" {
		entry.Reason = "apply " + a.doc.File
	}
	if change.Kind == "provider" {
		entry.OrganizationID = uuid.Nil
	}
	return auth.Record(ctx, a.db, entry)
}
