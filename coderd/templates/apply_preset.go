package templates

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
)

// presetState is what a preset's row says.
type presetState struct {
	poolState
	Parameters map[string]string `json:"parameters" file:"parameters"`
	Runner     *runnerState      `json:"runner,omitempty" file:"runner"`
}

// poolState is what is below prebuilds in a file.
type poolState struct {
	Instances       *int32          `json:"instances"` // null: no pool
	AllMachines     bool            `json:"all_machines,omitempty"`
	Schedule        json.RawMessage `json:"schedule,omitempty" file:"schedule"`
	TTL             span            `json:"ttl,omitempty" file:"ttl"`
	TTLJitter       string          `json:"ttl_jitter,omitempty" file:"ttl_jitter" default:"10%"` // means something with a TTL only
	MinRemaining    span            `json:"min_remaining,omitempty" file:"min_remaining"`
	Priority        int32           `json:"priority" file:"priority"`
	Autosize        *autosize       `json:"autosize,omitempty" file:"autosize" default:"off"`
	StandbyRunning  *running        `json:"standby_running,omitempty" file:"standby" default:"all running"`
	CreatesInFlight *int32          `json:"creates_in_flight,omitempty" file:"creates_in_flight"`
}

// population is the unclaimed workspaces of a template, counted by preset and version.
type population []templatesdb.UnclaimedOfRow

func (p population) of(preset uuid.UUID) int {
	n := 0
	for _, row := range p {
		if row.PresetID == preset {
			n += int(row.Workspaces)
		}
	}
	return n
}

func (p population) notOf(version uuid.UUID) int {
	n := 0
	for _, row := range p {
		if row.TemplateVersionID != version {
			n += int(row.Workspaces)
		}
	}
	return n
}

// presets makes the presets of a template those of the file.
func (a *applying) presets(
	ctx context.Context, t Template, row *database.Template, version database.TemplateVersion, unclaimed population,
) error {
	existing, err := templatesdb.New(a.db).PresetsOf(ctx, row.ID)
	if err != nil {
		return xerrors.Errorf("read presets: %w", err)
	}
	old := lists.Keyed(existing, func(p templatesdb.Preset) (string, database.Preset) { return p.Name, p })
	for _, p := range t.Presets {
		var before *database.Preset
		if is, found := old[p.Name]; found {
			before = &is
		}
		delete(old, p.Name)
		if err := a.preset(ctx, p, before, row, version, unclaimed); err != nil {
			return xerrors.Errorf("apply preset %s: %w", p.Name, err)
		}
	}
	for _, p := range existing {
		if _, gone := old[p.Name]; gone {
			if err := a.deletePreset(ctx, t, p, unclaimed.of(p.ID)); err != nil {
				return xerrors.Errorf("delete preset %s: %w", p.Name, err)
			}
		}
	}
	return nil
}

// preset makes one preset what the file says; row is nil where there is none yet.
func (a *applying) preset(
	ctx context.Context, p Preset, row *database.Preset, template *database.Template, version database.TemplateVersion,
	unclaimed population,
) error {
	q := templatesdb.New(a.db)
	old := database.Preset{
		ID: uuid.New(), OrganizationID: template.OrganizationID, TemplateID: template.ID, Name: p.Name, Generation: 1,
	}
	if row != nil {
		old = *row
	}
	asked, err := p.asked(old, a.forges.runner(p))
	if err != nil {
		return err
	}
	if asked.PoolKey, err = poolKeyOf(asked, version.Hash); err != nil {
		return err
	}
	after, err := stateOf(asked, a.forges)
	if err != nil {
		return err
	}
	change := sdk.Change{Kind: "preset", Name: template.Name + "/" + p.Name, Action: "create"}
	var before any
	if row == nil {
		err := q.InsertPreset(ctx, templatesdb.InsertPresetParams{
			ID: old.ID, OrganizationID: old.OrganizationID, TemplateID: old.TemplateID, Name: old.Name, PoolKey: asked.PoolKey,
		})
		if err != nil {
			return xerrors.Errorf("insert preset: %w", err)
		}
		switch {
		case after.Instances == nil || template.DeprecatedAt != nil:
		case after.AllMachines:
			change.Effect = "a prebuild is built on every unused machine"
		default:
			change.Effect = counted(int(*after.Instances), "") + " built"
		}
	} else {
		was, err := stateOf(old, a.forges)
		if err != nil {
			return err
		}
		was.Runner.tellApart(runnerOf(old), runnerOf(asked))
		before, change.Action = was, "update"
		change.Fields = append(fields(field{"instances", shownInstances(was), shownInstances(after)}), differences(was, after)...)
		if len(change.Fields) == 0 && asked.PoolKey == old.PoolKey {
			return nil
		}
		other := !maps.Equal(was.Parameters, after.Parameters) || !was.Runner.registersAs(after.Runner)
		if n := unclaimed.of(old.ID); other && n > 0 {
			change.Effect = counted(n, "") + " replaced"
		}
	}
	err = q.UpdatePreset(ctx, templatesdb.UpdatePresetParams{
		ID: asked.ID, Parameters: asked.Parameters, PoolKey: asked.PoolKey, Instances: asked.Instances, AllMachines: asked.AllMachines,
		TtlS: asked.TtlS, TtlJitter: asked.TtlJitter, MinRemainingS: asked.MinRemainingS, Schedule: asked.Schedule,
		Priority: asked.Priority, CreatesInFlight: asked.CreatesInFlight, Autosize: asked.Autosize,
		StandbyRunning: asked.StandbyRunning, ForgeEntityID: asked.ForgeEntityID, RunnerLabels: asked.RunnerLabels,
		RunnerGroup: asked.RunnerGroup, RunnerMaximum: asked.RunnerMaximum,
		RunnerRegistrationTimeoutS: asked.RunnerRegistrationTimeoutS,
	})
	if err != nil {
		return xerrors.Errorf("update preset: %w", err)
	}
	if row != nil && asked.ForgeEntityID.Valid && !old.ForgeEntityID.Valid {
		err := q.EndWaitingOf(ctx, templatesdb.EndWaitingOfParams{
			PresetID: row.ID, Reason: "the preset became one of runners, which jobs claim",
		})
		if err != nil {
			return xerrors.Errorf("end waiting claims: %w", err)
		}
	}
	a.affected[template.ID] = true
	if row != nil && len(change.Fields) == 0 { // only the version is another one, which the template's change already says and records
		return nil
	}
	return a.changed(ctx, change, asked.ID.String(), before, after)
}

func (a *applying) deletePreset(ctx context.Context, t Template, row database.Preset, unclaimed int) error {
	before, err := stateOf(row, a.forges)
	if err != nil {
		return err
	}
	if err := templatesdb.New(a.db).DeletePreset(ctx, row.ID); err != nil {
		return xerrors.Errorf("mark preset deleted: %w", err)
	}
	change := sdk.Change{Kind: "preset", Name: t.Name + "/" + row.Name, Action: "delete"}
	if unclaimed > 0 {
		change.Effect = counted(unclaimed, "") + " deleted; what is claimed stays until released"
	}
	a.affected[row.TemplateID] = true
	return a.changed(ctx, change, row.ID.String(), before, nil)
}

// asked is the row as the file asks for it; runner is how its prebuilds register, nil where they do not.
func (p Preset) asked(row database.Preset, runner *RunnerOf) (_ database.Preset, err error) {
	pool := Prebuilds{TTLJitter: defaultTTLJitter}
	row.Instances, row.TtlS, row.Autosize = nil, nil, nil
	if p.Prebuilds != nil {
		pool = *p.Prebuilds
		row.Instances = &pool.Instances
	}
	row.AllMachines, row.Schedule, row.Priority, row.CreatesInFlight = pool.AllMachines, pool.Schedule, pool.Priority, pool.CreatesInFlight
	row.TtlJitter, row.MinRemainingS, row.StandbyRunning = pool.TTLJitter, int64(seconds(pool.MinRemaining)), p.standbyRunning()
	if pool.TTL > 0 {
		row.TtlS = new(int64(seconds(pool.TTL)))
	}
	r := Runner{RegistrationTimeout: defaultRegistration}
	if p.Runner != nil {
		r = *p.Runner
	}
	row.ForgeEntityID, row.RunnerLabels = runner.columns()
	row.RunnerGroup, row.RunnerMaximum, row.RunnerRegistrationTimeoutS = r.Group, r.Maximum, seconds(r.RegistrationTimeout)
	if pool.Autosize != nil {
		if row.Autosize, err = json.Marshal(pool.Autosize); err != nil {
			return row, xerrors.Errorf("encode autosize: %w", err)
		}
	}
	if row.Parameters, err = json.Marshal(p.Parameters); err != nil {
		return row, xerrors.Errorf("encode parameters: %w", err)
	}
	return row, nil
}

func stateOf(row database.Preset, forges forges) (presetState, error) {
	s := presetState{
		poolState: poolState{
			Instances: row.Instances, AllMachines: row.AllMachines, Priority: row.Priority, CreatesInFlight: row.CreatesInFlight,
			StandbyRunning: (*running)(row.StandbyRunning), MinRemaining: spanOf(row.MinRemainingS),
		},
		Runner: forges.state(row),
	}
	if row.Schedule != nil {
		var stored prebuilds.StoredSchedule // as jsonb it has another order and other spaces
		if err := json.Unmarshal(row.Schedule, &stored); err != nil {
			return s, xerrors.Errorf("decode schedule: %w", err)
		}
		var err error
		if s.Schedule, err = json.Marshal(stored); err != nil {
			return s, xerrors.Errorf("encode schedule: %w", err)
		}
	}
	if row.TtlS != nil {
		s.TTL, s.TTLJitter = spanOf(*row.TtlS), fmt.Sprintf("%d%%", row.TtlJitter)
	}
	if err := json.Unmarshal(row.Parameters, &s.Parameters); err != nil {
		return s, xerrors.Errorf("decode parameters: %w", err)
	}
	if row.Autosize != nil {
		if err := json.Unmarshal(row.Autosize, &s.Autosize); err != nil {
			return s, xerrors.Errorf("decode autosize: %w", err)
		}
	}
	return s, nil
}

func shownInstances(s presetState) string {
	switch {
	case s.Instances == nil:
		return "no pool"
	case s.AllMachines:
		return all
	}
	return fmt.Sprint(*s.Instances)
}

// counted begins what becomes of some prebuilds: "1 prebuild is", "3 prebuilds of other versions are".
func counted(n int, which string) string {
	if n == 1 {
		return "1 prebuild" + which + " is"
	}
	return fmt.Sprintf("%d prebuilds%s are", n, which)
}
