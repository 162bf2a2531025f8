package templates

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
)

// templateState is what a template's row says, for comparison and for the record.
type templateState struct {
	Description  string `json:"description"`
	Provider     string `json:"provider"`
	KeepOutdated bool   `json:"keep_outdated"`
	BootTimeout  string `json:"boot_timeout"`
	rolloutState
	upkeepState
	claimingState
	// IdleCost is left out where it is not said, so that records from before it compare equal.
	IdleCost float64 `json:"idle_cost_per_hour,omitempty"`
	// StoppedCost likewise.
	StoppedCost *float64 `json:"stopped_cost_per_hour,omitempty"`
}

// template makes one template what the file says; row is nil where there is none yet.
func (a *applying) template(ctx context.Context, t Template, row *database.Template) error {
	q := templatesdb.New(a.db)
	after := templateState{
		t.Description, t.Provider, t.KeepOutdated, t.BootTimeout.String(), t.rollout(), t.upkeep(),
		t.claiming(), t.IdleCost, t.StoppedCost,
	}
	change := sdk.Change{Kind: "template", Name: t.Name, Action: "create"}
	var before any
	if row == nil {
		made, err := q.InsertTemplate(ctx, templatesdb.InsertTemplateParams{
			ID: uuid.New(), OrganizationID: a.by.OrganizationID, Name: t.Name, Description: t.Description,
			Provider: t.Provider, KeepOutdated: t.KeepOutdated, BootTimeoutS: seconds(t.BootTimeout),
			KeepFailures: t.KeepFailures.Maximum, KeepFailuresS: seconds(t.KeepFailures.TTL), MaxUses: t.Reuse.MaxUses,
			IdleCostPerHour: t.IdleCost, StoppedCostPerHour: t.StoppedCost, ClaimLeaseS: t.leaseOf(),
			MaxClaimed: t.Claims.Max, MaxClaimedPerUser: t.Claims.MaxPerUser,
			MaxSurge: after.MaxSurge, MaxUnavailable: after.MaxUnavailable,
			ProgressDeadlineS: seconds(t.Rollout.ProgressDeadline), CreatesInFlight: t.CreatesInFlight,
		})
		if err != nil {
			return xerrors.Errorf("insert template: %w", err)
		}
		row = &made
	} else {
		old := templateState{
			row.Description, row.Provider, row.KeepOutdated,
			(time.Duration(row.BootTimeoutS) * time.Second).String(), rolloutOf(*row), upkeepOf(row), claimingOf(row),
			row.IdleCostPerHour, row.StoppedCostPerHour,
		}
		change.Action, before = "update", old
		change.Fields = fields(
			field{"description", old.Description, after.Description},
			field{"provider", old.Provider, after.Provider},
			field{"keep_outdated", old.KeepOutdated, after.KeepOutdated},
			field{"boot_timeout", old.BootTimeout, after.BootTimeout},
			field{"idle_cost_per_hour", old.IdleCost, after.IdleCost},
			field{"stopped_cost_per_hour", shownCost(old.StoppedCost), shownCost(after.StoppedCost)},
		)
		change.Fields = append(change.Fields, rolloutFields(old.rolloutState, after.rolloutState)...)
		change.Fields = append(change.Fields, upkeepFields(old.upkeepState, after.upkeepState)...)
		change.Fields = append(change.Fields, claimingFields(old.claimingState, after.claimingState)...)
	}
	a.note = ""
	if row.DeprecatedAt != nil {
		a.note = fmt.Sprintf("%s stays deprecated, without prebuilds, until `prewarm template undeprecate %s`",
			t.Name, t.Name)
	}
	if change.Action == "create" || len(change.Fields) > 0 {
		if err := a.changed(ctx, change, row.ID.String(), before, after); err != nil {
			return err
		}
		a.affected[row.ID] = true
	}

	unclaimed, err := q.UnclaimedOf(ctx, row.ID)
	if err != nil {
		return xerrors.Errorf("count prebuilds: %w", err)
	}
	version, activated, err := a.version(ctx, t, row, unclaimed)
	if err != nil {
		return err
	}
	if activated || len(change.Fields) > 0 {
		a.affected[row.ID] = true
		err := q.UpdateTemplate(ctx, templatesdb.UpdateTemplateParams{
			ID: row.ID, Description: t.Description, Provider: t.Provider, KeepOutdated: t.KeepOutdated,
			BootTimeoutS: seconds(t.BootTimeout), KeepFailures: t.KeepFailures.Maximum,
			KeepFailuresS: seconds(t.KeepFailures.TTL), MaxUses: t.Reuse.MaxUses, IdleCostPerHour: t.IdleCost,
			StoppedCostPerHour: t.StoppedCost,
			ClaimLeaseS:        t.leaseOf(), MaxClaimed: t.Claims.Max, MaxClaimedPerUser: t.Claims.MaxPerUser,
			ActiveVersionID: uuid.NullUUID{UUID: version.ID, Valid: true},
			MaxSurge:        after.MaxSurge, MaxUnavailable: after.MaxUnavailable,
			ProgressDeadlineS: seconds(t.Rollout.ProgressDeadline), CreatesInFlight: t.CreatesInFlight,
		})
		if err != nil {
			return xerrors.Errorf("update template: %w", err)
		}
	}
	return a.presets(ctx, t, row, version, unclaimed)
}

// version finds the version of the file's content or makes it, and says whether it must become the active one.
func (a *applying) version(
	ctx context.Context, t Template, row *database.Template, unclaimed population,
) (database.TemplateVersion, bool, error) {
	q := templatesdb.New(a.db)
	spec, err := canonical(t.Spec)
	if err != nil {
		return database.TemplateVersion{}, false, err
	}
	agent, err := encodeAgent(t.Agent)
	if err != nil {
		return database.TemplateVersion{}, false, err
	}
	hash, err := versionHash(t.Provider, spec, agent)
	if err != nil {
		return database.TemplateVersion{}, false, err
	}
	version, err := q.VersionByHash(ctx, templatesdb.VersionByHashParams{TemplateID: row.ID, Hash: hash})
	made := database.NoRows(err)
	if made {
		version, err = q.InsertVersion(ctx, templatesdb.InsertVersionParams{
			ID: uuid.New(), TemplateID: row.ID, Hash: hash, Provider: t.Provider, Spec: spec, Agent: agent,
			Defaults: provider.CurrentDefaults, CreatedBy: a.by.UserID,
		})
	}
	if err != nil {
		return version, false, xerrors.Errorf("write version: %w", err)
	}
	if row.ActiveVersionID.Valid && row.ActiveVersionID.UUID == version.ID {
		return version, false, nil
	}

	change := sdk.Change{Kind: "version", Name: fmt.Sprintf("%s@%d", t.Name, version.Number), Action: "activate"}
	if made {
		change.Action = "create"
	}
	var before any
	if row.ActiveVersionID.Valid {
		active, err := q.VersionByID(ctx, row.ActiveVersionID.UUID)
		if err != nil {
			return version, false, xerrors.Errorf("read active version: %w", err)
		}
		stored, err := canonical(active.Spec)
		if err != nil {
			return version, false, err
		}
		had := active.Agent
		if had != nil {
			if had, err = canonical(had); err != nil {
				return version, false, err
			}
		}
		before = versionState{active.Number, active.Hash, true}
		change.Fields = slices.Concat(fields(field{"active version", active.Number, version.Number}),
			jsonFields("spec", stored, spec), agentFields(had, agent))
		if n := unclaimed.notOf(version.ID); n > 0 {
			change.Effect = fmt.Sprintf("%s of other versions %s replaced", count(n), is(n))
		}
	}
	return version, true, a.changed(ctx, change, version.ID.String(), before,
		versionState{version.Number, version.Hash, true})
}

type versionState struct {
	Number int32  `json:"number"`
	Hash   string `json:"hash"`
	Active bool   `json:"active"`
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }
