package templates

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Activated is a version that was made the active one, of a template that needs a nudge then.
type Activated struct {
	TemplateID uuid.UUID
	From, To   int32 // numbers
}

// Rollback makes another version of a template the active one: the one of that number, or where number is 0 the one that
// was active before. What is left of its prebuilds is current again at once. Parameters and settings stay what they are:
// they are not part of a version. Errors for whoever asked are *auth.Refusal.
func (s *Service) Rollback(ctx context.Context, by auth.Identity, name string, number int32, reason string) (done Activated, err error) {
	err = s.Store.InTx(ctx, database.TxOptions{Label: "roll back template"},
		func(ctx context.Context, tx pgx.Tx) error {
			q := templatesdb.New(tx)
			row, err := lockTemplate(ctx, tx, by.OrganizationID, name)
			if err != nil {
				return err
			}
			from, err := q.VersionByID(ctx, row.ActiveVersionID.UUID)
			if err != nil {
				return xerrors.Errorf("read active version: %w", err)
			}
			to, err := rollbackTo(ctx, tx, row, from, number)
			if err != nil {
				return err
			}
			// After its template, as only here, and under the lock of the organization: nobody holds one and waits for the other.
			providers, err := q.LockProviders(ctx, []string{to.Provider})
			if err != nil {
				return xerrors.Errorf("lock provider: %w", err)
			}
			if err := deletedProvider(providers, to.Provider); err != nil {
				return err
			}
			done = Activated{TemplateID: row.ID, From: from.Number, To: to.Number}
			if err := q.ActivateVersion(ctx, templatesdb.ActivateVersionParams{ID: row.ID, VersionID: to.ID}); err != nil {
				return xerrors.Errorf("activate version: %w", err)
			}
			presets, err := q.PresetsOf(ctx, row.ID)
			if err != nil {
				return xerrors.Errorf("read presets: %w", err)
			}
			for _, p := range presets {
				if err := setPoolKey(ctx, tx, p, to.Hash); err != nil {
					return err
				}
			}
			return auth.Record(ctx, tx, auth.Entry{
				ActorID: by.UserID, OrganizationID: by.OrganizationID, Action: "template.rollback", TargetType: "template",
				TargetID: row.ID.String(), TargetName: name, Source: by.Source, Reason: reason,
				Before: versionState{from.Number, from.Hash, true}, After: versionState{to.Number, to.Hash, true},
			})
		})
	return done, err
}

func rollbackTo(
	ctx context.Context, db database.DBTX, row database.Template, from database.TemplateVersion, number int32,
) (database.TemplateVersion, error) {
	if number == 0 {
		to, err := viewsdb.New(db).VersionBefore(ctx, row.ID)
		if database.NoRows(err) {
			return to, auth.Refuse(auth.ErrConflict, "template %q has no version before %d: there is nothing to go back to",
				row.Name, from.Number)
		}
		if err != nil {
			return to, xerrors.Errorf("read version before: %w", err)
		}
		return to, nil
	}
	to, err := templatesdb.New(db).VersionByNumber(ctx, templatesdb.VersionByNumberParams{TemplateID: row.ID, Number: number})
	switch {
	case database.NoRows(err):
		return to, auth.Refuse(auth.ErrNotFound, "template %q has no version %d: `prewarm template show %s` lists them",
			row.Name, number, row.Name)
	case err != nil:
		return to, xerrors.Errorf("read version: %w", err)
	case to.ID == from.ID:
		return to, auth.Refuse(auth.ErrConflict, "version %d of template %q is the active one already", number, row.Name)
	}
	return to, nil
}

// Invalidate replaces all unclaimed prebuilds of a preset, as a new version would (C15). It returns the template, which
// needs a nudge then.
func (s *Service) Invalidate(ctx context.Context, by auth.Identity, template, preset, reason string) (id uuid.UUID, err error) {
	err = s.Store.InTx(ctx, database.TxOptions{Label: "invalidate preset"},
		func(ctx context.Context, tx pgx.Tx) error {
			row, p, err := lockPreset(ctx, tx, by.OrganizationID, template, preset)
			if err != nil {
				return err
			}
			id = row.ID
			version, err := templatesdb.New(tx).VersionByID(ctx, row.ActiveVersionID.UUID)
			if err != nil {
				return xerrors.Errorf("read active version: %w", err)
			}
			p.Generation++
			if err := setPoolKey(ctx, tx, p, version.Hash); err != nil {
				return err
			}
			return auth.Record(ctx, tx, presetEntry(by, "preset.invalidate", template, p, reason,
				map[string]int32{"generation": p.Generation - 1}, map[string]int32{"generation": p.Generation}))
		})
	return id, err
}

// Reset forgets the failures of a preset's creates, so that they begin again (C8), and gives its rollout the time that a
// new one has. It returns the template, which needs a nudge then.
func (s *Service) Reset(ctx context.Context, by auth.Identity, template, preset, reason string) (id uuid.UUID, err error) {
	err = s.Store.InTx(ctx, database.TxOptions{Label: "reset preset"},
		func(ctx context.Context, tx pgx.Tx) error {
			q := templatesdb.New(tx)
			row, p, err := lockPreset(ctx, tx, by.OrganizationID, template, preset)
			if err != nil {
				return err
			}
			id = row.ID
			streak, err := viewsdb.New(tx).FailureStreak(ctx, p.ID)
			if err != nil && !database.NoRows(err) {
				return xerrors.Errorf("read failures: %w", err)
			}
			if _, err := q.ResetFailures(ctx, p.ID); err != nil {
				return xerrors.Errorf("reset failures: %w", err)
			}
			if err := q.RestartRollout(ctx, p.ID); err != nil {
				return xerrors.Errorf("restart rollout: %w", err)
			}
			return auth.Record(ctx, tx, presetEntry(by, "preset.reset", template, p, reason,
				map[string]int32{"failures": streak.Streak}, map[string]int32{"failures": 0}))
		})
	return id, err
}

func presetEntry(by auth.Identity, action, template string, p database.Preset, reason string, before, after any) auth.Entry {
	return auth.Entry{
		ActorID: by.UserID, OrganizationID: by.OrganizationID, Action: action, TargetType: "preset", TargetID: p.ID.String(),
		TargetName: template + "/" + p.Name, Source: by.Source, Reason: reason, Before: before, After: after,
	}
}

// poolKeyOf is the key of a preset's pool with a version of its template.
func poolKeyOf(p database.Preset, version string) (uuid.UUID, error) {
	of := PoolKeyOf{p.OrganizationID, p.TemplateID, version, p.Name, nil, p.Generation, runnerOf(p)}
	if err := json.Unmarshal(p.Parameters, &of.Parameters); err != nil {
		return uuid.Nil, xerrors.Errorf("decode parameters: %w", err)
	}
	return PoolKey(of)
}

// setPoolKey makes a preset's pool that of a version.
func setPoolKey(ctx context.Context, db database.DBTX, p database.Preset, version string) error {
	key, err := poolKeyOf(p, version)
	if err != nil {
		return err
	}
	if err := templatesdb.New(db).SetPoolKey(ctx, templatesdb.SetPoolKeyParams{ID: p.ID, PoolKey: key, Generation: p.Generation}); err != nil {
		return xerrors.Errorf("write pool key of preset %s: %w", p.Name, err)
	}
	return nil
}

// lockTemplate takes the locks that an apply of this template takes.
func lockTemplate(ctx context.Context, db database.DBTX, organization uuid.UUID, name string) (database.Template, error) {
	if _, err := database.New(db).LockOrganization(ctx, organization); err != nil {
		return database.Template{}, xerrors.Errorf("lock organization: %w", err)
	}
	rows, err := templatesdb.New(db).LockTemplates(ctx, templatesdb.LockTemplatesParams{OrganizationID: organization, Names: []string{name}})
	if err != nil {
		return database.Template{}, xerrors.Errorf("lock template: %w", err)
	}
	if len(rows) == 0 {
		return database.Template{}, UnknownTemplate(ctx, db, organization, name)
	}
	return rows[0], nil
}

func lockPreset(
	ctx context.Context, db database.DBTX, organization uuid.UUID, template, preset string,
) (database.Template, database.Preset, error) {
	row, err := lockTemplate(ctx, db, organization, template)
	if err != nil {
		return row, database.Preset{}, err
	}
	presets, err := templatesdb.New(db).PresetsOf(ctx, row.ID)
	if err != nil {
		return row, database.Preset{}, xerrors.Errorf("read presets: %w", err)
	}
	names := make([]string, len(presets))
	for i, p := range presets {
		if p.Name == preset {
			return row, p, nil
		}
		names[i] = p.Name
	}
	return row, database.Preset{}, auth.Refuse(auth.ErrNotFound, "template %q has no preset %q%s", template, preset,
		Known(preset, names, "preset"))
}
