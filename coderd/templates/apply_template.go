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

// templateState is what a template's row says.
type templateState struct {
	Description  string `json:"description" file:"description"`
	Provider     string `json:"provider" file:"provider"`
	KeepOutdated bool   `json:"keep_outdated" file:"keep_outdated" default:"true"`
	BootTimeout  span   `json:"boot_timeout" file:"boot_timeout" default:"20m0s"`
	// IdleCost is left out where it is not said, so that records from before it compare equal.
	IdleCost float64 `json:"idle_cost_per_hour,omitempty" file:"idle_cost_per_hour"`
	// StoppedCost likewise.
	StoppedCost *float64 `json:"stopped_cost_per_hour,omitempty" file:"stopped_cost_per_hour" none:"as idle_cost_per_hour"`

	MaxSurge         string `json:"max_surge" file:"rollout.max_surge" default:"100%"`
	MaxUnavailable   string `json:"max_unavailable,omitempty" file:"rollout.max_unavailable"`
	ProgressDeadline span   `json:"progress_deadline" file:"rollout.progress_deadline" default:"1h0m0s"`
	CreatesInFlight  *int32 `json:"creates_in_flight,string,omitempty" file:"creates_in_flight"`

	KeepFailures    int32 `json:"keep_failures" file:"keep_failures.maximum"`
	KeepFailuresTTL span  `json:"keep_failures_ttl" file:"keep_failures.ttl" default:"24h0m0s"`
	MaxUses         int32 `json:"max_uses" file:"max_uses" default:"1"`

	ClaimLease        span  `json:"claim_lease,omitempty" file:"claims.lease"`
	MaxClaimed        int32 `json:"max_claimed,omitempty" file:"claims.maximum"`
	MaxClaimedPerUser int32 `json:"max_claimed_per_user,omitempty" file:"claims.maximum_per_user"`
}

func templateStateOf(row database.Template) templateState {
	return templateState{
		Description: row.Description, Provider: row.Provider, KeepOutdated: row.KeepOutdated, BootTimeout: spanOf(row.BootTimeoutS),
		IdleCost: row.IdleCostPerHour, StoppedCost: row.StoppedCostPerHour, MaxSurge: row.MaxSurge, MaxUnavailable: row.MaxUnavailable,
		ProgressDeadline: spanOf(row.ProgressDeadlineS), CreatesInFlight: row.CreatesInFlight, KeepFailures: row.KeepFailures,
		KeepFailuresTTL: spanOf(row.KeepFailuresS), MaxUses: row.MaxUses, ClaimLease: spanOf(database.OrZero(row.ClaimLeaseS)),
		MaxClaimed: database.OrZero(row.MaxClaimed), MaxClaimedPerUser: database.OrZero(row.MaxClaimedPerUser),
	}
}

// asked is the row as the file asks for it.
func (t Template) asked(row database.Template) database.Template {
	row.Description, row.Provider, row.KeepOutdated = t.Description, t.Provider, t.KeepOutdated
	row.BootTimeoutS, row.IdleCostPerHour, row.StoppedCostPerHour = seconds(t.BootTimeout), t.IdleCost, t.StoppedCost
	row.MaxSurge, row.MaxUnavailable = string(t.Rollout.MaxSurge), string(t.Rollout.MaxUnavailable)
	row.ProgressDeadlineS, row.CreatesInFlight = seconds(t.Rollout.ProgressDeadline), t.CreatesInFlight
	row.KeepFailures, row.KeepFailuresS, row.MaxUses = t.KeepFailures.Maximum, seconds(t.KeepFailures.TTL), t.Reuse.MaxUses
	row.ClaimLeaseS, row.MaxClaimed, row.MaxClaimedPerUser = nil, t.Claims.Max, t.Claims.MaxPerUser
	if t.Claims.Lease > 0 {
		row.ClaimLeaseS = new(seconds(t.Claims.Lease))
	}
	return row
}

// template makes one template what the file says; row is nil where there is none yet.
func (a *applying) template(ctx context.Context, t Template, row *database.Template) error {
	q := templatesdb.New(a.db)
	change := sdk.Change{Kind: "template", Name: t.Name, Action: "update"}
	var before any
	if row == nil {
		made, err := q.InsertTemplate(ctx, templatesdb.InsertTemplateParams{
			ID: uuid.New(), OrganizationID: a.by.OrganizationID, Name: t.Name, Provider: t.Provider,
		})
		if err != nil {
			return xerrors.Errorf("insert template: %w", err)
		}
		row, change.Action = &made, "create"
	}
	asked := t.asked(*row)
	after := templateStateOf(asked)
	if change.Action == "update" {
		old := templateStateOf(*row)
		before, change.Fields = old, differences(old, after)
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
			ID: row.ID, Description: asked.Description, Provider: asked.Provider, KeepOutdated: asked.KeepOutdated,
			BootTimeoutS: asked.BootTimeoutS, KeepFailures: asked.KeepFailures, KeepFailuresS: asked.KeepFailuresS,
			MaxUses: asked.MaxUses, MaxSurge: asked.MaxSurge, MaxUnavailable: asked.MaxUnavailable,
			ProgressDeadlineS: asked.ProgressDeadlineS, CreatesInFlight: asked.CreatesInFlight,
			IdleCostPerHour: asked.IdleCostPerHour, StoppedCostPerHour: asked.StoppedCostPerHour, ClaimLeaseS: asked.ClaimLeaseS,
			MaxClaimed: asked.MaxClaimed, MaxClaimedPerUser: asked.MaxClaimedPerUser,
			ActiveVersionID: uuid.NullUUID{UUID: version.ID, Valid: true},
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
		return version, false, nil // also where its provider does not allow it any more: pools can be resized, and nobody enters
	}
	if t.Agent != nil && t.Agent.opensAt() != (Pos{}) {
		allows, err := q.ProviderAllows(ctx, t.Provider) // it is locked
		if err != nil {
			return version, false, xerrors.Errorf("read what the provider allows: %w", err)
		}
		if err := notAllowed(a.doc, t, Allowed(allows)); err != nil {
			return version, false, err
		}
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
		change.Fields = slices.Concat(fields(field{"active version", fmt.Sprint(active.Number), fmt.Sprint(version.Number)}),
			jsonFields("spec", stored, spec), agentFields(had, agent))
		if n := unclaimed.notOf(version.ID); n > 0 {
			change.Effect = counted(n, " of other versions") + " replaced"
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
