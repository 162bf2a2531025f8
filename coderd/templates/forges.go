package templates

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
)

// forges are the entities of an organization, those that were deleted included.
type forges []templatesdb.ForgesOfRow

func forgesOf(ctx context.Context, db database.DBTX, organization uuid.UUID) (forges, error) {
	rows, err := templatesdb.New(db).ForgesOf(ctx, organization)
	if err != nil {
		return nil, xerrors.Errorf("read forges: %w", err)
	}
	return rows, nil
}

// named finds one that is not deleted, nil where there is none.
func (f forges) named(name string) *templatesdb.ForgesOfRow {
	return find(f, func(e *templatesdb.ForgesOfRow) bool { return e.Name == name && !e.Deleted })
}

// check notes runners of forges that are not there, or that cannot be asked for them in that way.
func (f forges) check(doc *Document, problems *Problems) {
	var names []string
	for _, e := range f {
		if !e.Deleted {
			names = append(names, e.Name)
		}
	}
	for _, t := range doc.Templates {
		for _, p := range t.Presets {
			if p.Runner == nil || p.Runner.Forge == "" {
				continue
			}
			e := f.named(p.Runner.Forge)
			switch {
			case e == nil:
				problems.add(p.Runner.forgeAt, "unknown forge %q%s: %s; `prewarm forge` adds others", p.Runner.Forge,
					DidYouMean(p.Runner.Forge, names), thereAre(names))
			case p.Runner.Group != "" && e.Kind == database.ForgeKindGitea:
				problems.add(p.Runner.groupAt, "forge %q is a Gitea, which has no groups of runners: leave group out", e.Name)
			case p.Runner.Group != "" && e.Scope == database.ForgeScopeRepository:
				problems.add(p.Runner.groupAt, "forge %q is a repository, which has no groups of runners: leave group out", e.Name)
			}
		}
	}
}

// runner is how the prebuilds of a preset of the file register; nil where they do not. Its forge was checked to be there.
func (f forges) runner(p Preset) *RunnerOf {
	if p.Runner == nil {
		return nil
	}
	return &RunnerOf{f.named(p.Runner.Forge).ID, p.Runner.Labels, p.Runner.Group}
}

// state is what a row says of its runners; nil where there are none.
func (f forges) state(row database.Preset) *runnerState {
	if !row.ForgeEntityID.Valid {
		return nil
	}
	s := runnerState{
		row.ForgeEntityID.UUID.String(), row.RunnerLabels, row.RunnerGroup, row.RunnerMaximum,
		spanOf(row.RunnerRegistrationTimeoutS),
	}
	for _, e := range f {
		if e.ID == row.ForgeEntityID.UUID {
			s.Forge = e.Name
		}
	}
	return &s
}

// runnerOf is how the prebuilds of a preset register; nil where they do not.
func runnerOf(row database.Preset) *RunnerOf {
	if !row.ForgeEntityID.Valid {
		return nil
	}
	return &RunnerOf{row.ForgeEntityID.UUID, row.RunnerLabels, row.RunnerGroup}
}

// columns are what a row has of it; of none no entity and no labels.
func (r *RunnerOf) columns() (entity uuid.NullUUID, labels []string) {
	if r == nil {
		return uuid.NullUUID{}, []string{}
	}
	return uuid.NullUUID{UUID: r.Entity, Valid: true}, r.Labels
}

// lockForges reads the entities again within the apply, and holds those that the file names.
func (a *applying) lockForges(ctx context.Context) (err error) {
	var names []string
	for _, t := range a.doc.Templates {
		for _, p := range t.Presets {
			if p.Runner != nil && !slices.Contains(names, p.Runner.Forge) {
				names = append(names, p.Runner.Forge)
			}
		}
	}
	if len(names) > 0 {
		_, err := templatesdb.New(a.db).LockForges(ctx, templatesdb.LockForgesParams{OrganizationID: a.by.OrganizationID, Names: names})
		if err != nil {
			return xerrors.Errorf("lock forges: %w", err)
		}
	}
	if a.forges, err = forgesOf(ctx, a.db, a.by.OrganizationID); err != nil {
		return err
	}
	problems := &Problems{File: a.doc.File} // what was deleted just now
	a.forges.check(a.doc, problems)
	return problems.err()
}
