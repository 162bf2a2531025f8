package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
)

// Resized is the file that changes nothing but the instances of one preset: its template as it is, in JSON, which is YAML.
// An apply of it says the same as an apply of the file that the template came from, with another number in it. Errors for
// whoever asked are *auth.Refusal.
func (s *Service) Resized(ctx context.Context, by auth.Identity, template, preset string, instances int) (document string, err error) {
	err = s.Store.InTx(ctx, database.TxOptions{Label: "read template"},
		func(ctx context.Context, tx pgx.Tx) error {
			row, wanted, err := lockPreset(ctx, tx, by.OrganizationID, template, preset)
			if err != nil {
				return err
			}
			if wanted.Instances == nil {
				return auth.Refuse(auth.ErrConflict, "preset %s/%s has no prebuilds block, so there is nothing to resize: add one to "+
					"its file and apply that", template, preset)
			}
			written, err := writeWhole(ctx, tx, row, func(name string, state *presetState) {
				if name == wanted.Name {
					n := int32(min(max(instances, 0), MaxInstances))
					state.Instances, state.AllMachines = &n, false
				}
			})
			if err != nil {
				return err
			}
			document, err = writeJSON(object{"templates": []object{written}})
			return err
		})
	return document, err
}

// writeWhole is all that a file says of a template, with its presets as change leaves them.
func writeWhole(ctx context.Context, tx pgx.Tx, row database.Template, change func(string, *presetState)) (object, error) {
	q := templatesdb.New(tx)
	version, err := q.VersionByID(ctx, row.ActiveVersionID.UUID)
	if err != nil {
		return nil, xerrors.Errorf("read active version: %w", err)
	}
	presets, err := q.PresetsOf(ctx, row.ID)
	if err != nil {
		return nil, xerrors.Errorf("read presets: %w", err)
	}
	written, err := writeTemplate(row, version)
	if err != nil {
		return nil, err
	}
	forges, err := forgesOf(ctx, tx, row.OrganizationID)
	if err != nil {
		return nil, err
	}
	list := make([]object, len(presets))
	for i, p := range presets {
		state, err := stateOf(p, forges)
		if err != nil {
			return nil, err
		}
		change(p.Name, &state)
		if list[i], err = writePreset(p.Name, state); err != nil {
			return nil, xerrors.Errorf("write preset %s: %w", p.Name, err)
		}
	}
	written["presets"] = list
	return written, nil
}

type object map[string]any

// set is to be left out where it is nothing.
func (o object) set(key string, value any, is bool) {
	if is {
		o[key] = value
	}
}

// writeTemplate is all that a file says of a template, but its presets.
func writeTemplate(row database.Template, version database.TemplateVersion) (object, error) {
	spec, err := writeFreeform(version.Spec)
	if err != nil {
		return nil, err
	}
	rollout := object{"max_surge": row.MaxSurge, "progress_deadline": shownDuration(row.ProgressDeadlineS)}
	rollout.set("max_unavailable", row.MaxUnavailable, row.MaxUnavailable != "")
	claims := object{}
	claims.set("lease", shownDuration(orZero(row.ClaimLeaseS)), row.ClaimLeaseS != nil)
	claims.set("maximum", row.MaxClaimed, row.MaxClaimed != nil)
	claims.set("maximum_per_user", row.MaxClaimedPerUser, row.MaxClaimedPerUser != nil)
	o := object{
		"name": row.Name, "description": row.Description, "provider": row.Provider, "keep_outdated": row.KeepOutdated,
		"rollout": rollout, "boot_timeout": shownDuration(row.BootTimeoutS), "idle_cost_per_hour": row.IdleCostPerHour,
		"spec": spec, "claims": claims,
		"keep_failures": object{"maximum": row.KeepFailures, "ttl": shownDuration(row.KeepFailuresS)},
	}
	o.set("creates_in_flight", row.CreatesInFlight, row.CreatesInFlight != nil)
	o.set("stopped_cost_per_hour", row.StoppedCostPerHour, row.StoppedCostPerHour != nil)
	o.set("reuse", true, row.MaxUses > 1)
	o.set("max_uses", row.MaxUses, row.MaxUses > 1)
	if version.Agent != nil {
		var a agentState
		if err := json.Unmarshal(version.Agent, &a); err != nil {
			return nil, xerrors.Errorf("decode agent: %w", err)
		}
		agent := object{"heartbeat_timeout": (time.Duration(a.HeartbeatTimeoutS) * time.Second).String()}
		agent.set("on_start", a.OnStart, len(a.OnStart) > 0)
		agent.set("on_claim", a.OnClaim, len(a.OnClaim) > 0)
		agent.set("runner", a.Runner, len(a.Runner) > 0)
		agent.set("data_plane", false, a.DataPlane != nil && !*a.DataPlane)
		o["agent"] = agent
	}
	return o, nil
}

func writePreset(name string, s presetState) (object, error) {
	o := object{"name": name, "parameters": s.Parameters}
	if s.Instances == nil {
		return o, nil
	}
	p := object{"instances": s.Instances, "priority": s.Priority}
	p.set("instances", all, s.AllMachines)
	p.set("ttl", s.TTL, s.TTL != "")
	p.set("ttl_jitter", s.TTLJitter, s.TTL != "")
	p.set("min_remaining", s.MinRemaining, s.MinRemaining != "")
	p.set("creates_in_flight", s.CreatesInFlight, s.CreatesInFlight != nil)
	if s.StandbyRunning != nil {
		p["standby"] = object{"running": *s.StandbyRunning}
	}
	if s.Schedule != nil {
		var stored prebuilds.StoredSchedule
		if err := json.Unmarshal(s.Schedule, &stored); err != nil {
			return nil, xerrors.Errorf("decode schedule: %w", err)
		}
		p["schedule"] = stored
	}
	if s.Autosize != nil {
		p["autosize"] = writeAutosize(*s.Autosize)
	}
	o["prebuilds"] = p
	if s.Runner != nil {
		o["runner"] = s.Runner
	}
	return o, nil
}

func writeAutosize(c sizing.Config) object {
	// As somebody wrote it: what a fraction is not exact in is beyond twelve digits.
	target := strconv.FormatFloat(c.Target*100, 'g', 12, 64)
	o := object{"mode": c.Mode, "min": c.Min, "max": c.Max, "target": target + "%"}
	o.set("timezone", c.Timezone, c.Timezone != "")
	return o
}

// writeFreeform is a stored value with its numbers as a file can have them.
func writeFreeform(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, xerrors.Errorf("decode JSON: %w", err)
	}
	return readable(value), nil
}

// readable has large numbers with an exponent: jsonb writes all their zeros, and YAML reads those as an integer that is too
// large to be one.
func readable(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, part := range v {
			v[key] = readable(part)
		}
	case []any:
		for i, part := range v {
			v[i] = readable(part)
		}
	case json.Number:
		if _, err := v.Int64(); err == nil || strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if _, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return v
		}
		if f, err := v.Float64(); err == nil {
			return json.RawMessage(strconv.FormatFloat(f, 'e', -1, 64))
		}
	}
	return value
}

func writeJSON(value any) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return "", xerrors.Errorf("encode configuration: %w", err)
	}
	return b.String(), nil
}
