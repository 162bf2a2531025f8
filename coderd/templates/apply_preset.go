package templates

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
)

// presetState is what a preset's row says, for comparison and for the record.
type presetState struct {
	Parameters   map[string]string `json:"parameters"`
	Instances    *int32            `json:"instances"` // null: no pool
	AllMachines  bool              `json:"all_machines,omitempty"`
	Schedule     json.RawMessage   `json:"schedule,omitempty"`
	TTL          string            `json:"ttl,omitempty"`
	TTLJitter    string            `json:"ttl_jitter,omitempty"` // means something with a TTL only
	MinRemaining string            `json:"min_remaining,omitempty"`
	Priority     int32             `json:"priority"`
	Autosize     *sizing.Config    `json:"autosize,omitempty"`

	CreatesInFlight *int32  `json:"creates_in_flight,omitempty"`
	StandbyRunning  *string `json:"standby_running,omitempty"`

	Runner *runnerState `json:"runner,omitempty"`
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
	old := map[string]database.Preset{}
	for _, p := range existing {
		old[p.Name] = p
	}
	for _, p := range t.Presets {
		before, found := old[p.Name]
		delete(old, p.Name)
		if found {
			err = a.updatePreset(ctx, t, p, before, version, unclaimed.of(before.ID))
		} else {
			err = a.createPreset(ctx, t, p, row, version)
		}
		if err != nil {
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

func (a *applying) createPreset(
	ctx context.Context, t Template, p Preset, row *database.Template, version database.TemplateVersion,
) error {
	runner := a.forges.runner(p)
	key, err := PoolKey(PoolKeyOf{a.by.OrganizationID, row.ID, version.Hash, p.Name, p.Parameters, 1, runner})
	if err != nil {
		return err
	}
	parameters, err := json.Marshal(p.Parameters)
	if err != nil {
		return xerrors.Errorf("encode parameters: %w", err)
	}
	state := p.state()
	autosize, err := encodeAutosize(state.Autosize)
	if err != nil {
		return xerrors.Errorf("encode autosize: %w", err)
	}
	entity, labels := runner.columns()
	params := templatesdb.InsertPresetParams{
		ID: uuid.New(), OrganizationID: a.by.OrganizationID, TemplateID: row.ID, Name: p.Name, Parameters: parameters,
		PoolKey: key, Instances: state.Instances, AllMachines: state.AllMachines, TtlS: p.ttl(), TtlJitter: p.ttlJitter(),
		MinRemainingS: p.minRemaining(), Schedule: state.Schedule, Priority: state.Priority,
		CreatesInFlight: state.CreatesInFlight, Autosize: autosize, StandbyRunning: state.StandbyRunning,
		ForgeEntityID: entity, RunnerLabels: labels, RunnerGroup: p.Runner.group(), RunnerMaximum: p.Runner.maximum(),
		RunnerRegistrationTimeoutS: p.Runner.registrationTimeout(),
	}
	if err := templatesdb.New(a.db).InsertPreset(ctx, params); err != nil {
		return xerrors.Errorf("insert preset: %w", err)
	}
	change := sdk.Change{Kind: "preset", Name: t.Name + "/" + p.Name, Action: "create"}
	switch {
	case state.Instances == nil || row.DeprecatedAt != nil:
	case state.AllMachines:
		change.Effect = "a prebuild is built on every unused machine"
	default:
		n := int(*state.Instances)
		change.Effect = fmt.Sprintf("%s %s built", count(n), is(n))
	}
	a.affected[row.ID] = true
	return a.changed(ctx, change, params.ID.String(), nil, state)
}

func (a *applying) updatePreset(
	ctx context.Context, t Template, p Preset, row database.Preset, version database.TemplateVersion, unclaimed int,
) error {
	before, err := stateOf(row, a.forges)
	if err != nil {
		return err
	}
	after, runner := p.state(), a.forges.runner(p)
	before.Runner.tellApart(runnerOf(row), runner)
	key, err := PoolKey(PoolKeyOf{
		row.OrganizationID, row.TemplateID, version.Hash, p.Name, p.Parameters, row.Generation, runner,
	})
	if err != nil {
		return err
	}
	changes := append(
		fields(
			field{"instances", shownInstances(before), shownInstances(after)},
			field{"schedule", string(before.Schedule), string(after.Schedule)},
			field{"ttl", before.TTL, after.TTL},
			field{"ttl_jitter", before.TTLJitter, after.TTLJitter},
			field{"min_remaining", before.MinRemaining, after.MinRemaining},
			field{"priority", before.Priority, after.Priority},
			field{"autosize", shownAutosize(before.Autosize), shownAutosize(after.Autosize)},
			field{"standby", shownStandby(before.StandbyRunning), shownStandby(after.StandbyRunning)},
			field{"creates_in_flight", shownLimit(before.CreatesInFlight), shownLimit(after.CreatesInFlight)},
		),
		mapFields("parameters", before.Parameters, after.Parameters)...)
	changes = append(changes, runnerFields(before.Runner, after.Runner)...)
	if len(changes) == 0 && key == row.PoolKey {
		return nil
	}
	parameters, err := json.Marshal(p.Parameters)
	if err != nil {
		return xerrors.Errorf("encode parameters: %w", err)
	}
	autosize, err := encodeAutosize(after.Autosize)
	if err != nil {
		return xerrors.Errorf("encode autosize: %w", err)
	}
	entity, labels := runner.columns()
	err = templatesdb.New(a.db).UpdatePreset(ctx, templatesdb.UpdatePresetParams{
		ID: row.ID, Parameters: parameters, PoolKey: key, Instances: after.Instances, AllMachines: after.AllMachines, TtlS: p.ttl(),
		TtlJitter: p.ttlJitter(), MinRemainingS: p.minRemaining(), Schedule: after.Schedule, Priority: after.Priority,
		CreatesInFlight: after.CreatesInFlight, Autosize: autosize, StandbyRunning: after.StandbyRunning,
		ForgeEntityID: entity, RunnerLabels: labels, RunnerGroup: p.Runner.group(), RunnerMaximum: p.Runner.maximum(),
		RunnerRegistrationTimeoutS: p.Runner.registrationTimeout(),
	})
	if err != nil {
		return xerrors.Errorf("update preset: %w", err)
	}
	if entity.Valid && !row.ForgeEntityID.Valid {
		err := templatesdb.New(a.db).EndWaitingOf(ctx, templatesdb.EndWaitingOfParams{
			PresetID: row.ID, Reason: "the preset became one of runners, which jobs claim",
		})
		if err != nil {
			return xerrors.Errorf("end waiting claims: %w", err)
		}
	}
	a.affected[row.TemplateID] = true
	if len(changes) == 0 { // only the version is another one, which is told and recorded already
		return nil
	}
	change := sdk.Change{Kind: "preset", Name: t.Name + "/" + p.Name, Action: "update", Fields: changes}
	if other := !maps.Equal(before.Parameters, after.Parameters) || !before.Runner.registersAs(after.Runner); other && unclaimed > 0 {
		change.Effect = fmt.Sprintf("%s %s replaced", count(unclaimed), is(unclaimed))
	}
	return a.changed(ctx, change, row.ID.String(), before, after)
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
		change.Effect = fmt.Sprintf("%s %s deleted; what is claimed stays until released", count(unclaimed),
			is(unclaimed))
	}
	a.affected[row.TemplateID] = true
	return a.changed(ctx, change, row.ID.String(), before, nil)
}

func (p Preset) state() presetState {
	s := presetState{Parameters: p.Parameters, Runner: p.Runner.state()}
	if p.Prebuilds != nil {
		s.Instances, s.Priority, s.Autosize = &p.Prebuilds.Instances, p.Prebuilds.Priority, p.Prebuilds.Autosize
		s.AllMachines = p.Prebuilds.AllMachines
		s.Schedule, s.CreatesInFlight = p.Prebuilds.Schedule, p.Prebuilds.CreatesInFlight
		s.StandbyRunning = p.standbyRunning()
		if p.Prebuilds.TTL > 0 {
			s.TTL, s.TTLJitter = p.Prebuilds.TTL.String(), percent(p.ttlJitter())
		}
		if p.Prebuilds.MinRemaining > 0 {
			s.MinRemaining = p.Prebuilds.MinRemaining.String()
		}
	}
	return s
}

func (p Preset) ttlJitter() int32 {
	if p.Prebuilds == nil {
		return defaultTTLJitter
	}
	return p.Prebuilds.TTLJitter
}

func percent(n int32) string { return fmt.Sprintf("%d%%", n) }

func (p Preset) minRemaining() int64 {
	if p.Prebuilds == nil {
		return 0
	}
	return int64(p.Prebuilds.MinRemaining / time.Second)
}

func (p Preset) ttl() *int64 {
	if p.Prebuilds == nil || p.Prebuilds.TTL == 0 {
		return nil
	}
	s := int64(p.Prebuilds.TTL / time.Second)
	return &s
}

func stateOf(row database.Preset, forges forges) (presetState, error) {
	s := presetState{
		Instances: row.Instances, AllMachines: row.AllMachines, Priority: row.Priority, CreatesInFlight: row.CreatesInFlight,
		StandbyRunning: row.StandbyRunning, Runner: forges.state(row),
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
	if row.MinRemainingS > 0 {
		s.MinRemaining = (time.Duration(row.MinRemainingS) * time.Second).String()
	}
	if row.TtlS != nil {
		s.TTL, s.TTLJitter = (time.Duration(*row.TtlS) * time.Second).String(), percent(row.TtlJitter)
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

func count(n int) string {
	if n == 1 {
		return "1 prebuild"
	}
	return fmt.Sprintf("%d prebuilds", n)
}

func is(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
