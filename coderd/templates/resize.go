package templates

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
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
			written, err := writeTemplate(ctx, tx, row, func(name string, pool *poolState) {
				if name == wanted.Name {
					pool.Instances, pool.AllMachines = new(int32(min(max(instances, 0), MaxInstances))), false
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

// writeTemplate is all that a file says of a template, with its pools as change leaves them. TestExport holds that an apply then
// reads the same.
func writeTemplate(ctx context.Context, tx pgx.Tx, row database.Template, change func(string, *poolState)) (object, error) {
	q := templatesdb.New(tx)
	version, err := q.VersionByID(ctx, row.ActiveVersionID.UUID)
	if err != nil {
		return nil, xerrors.Errorf("read active version: %w", err)
	}
	presets, err := q.PresetsOf(ctx, row.ID)
	if err != nil {
		return nil, xerrors.Errorf("read presets: %w", err)
	}
	forges, err := forgesOf(ctx, tx, row.OrganizationID)
	if err != nil {
		return nil, err
	}
	o := object{"name": row.Name}
	o.put(templateStateOf(row))
	if row.MaxUses > 1 {
		o["reuse"] = true
	}
	if kept, ok := o["keep_failures"].(object); ok {
		kept["maximum"] = row.KeepFailures // also 0: within the mapping it is not what is meant by nothing
	}
	if o["spec"], err = writeFreeform(version.Spec); err != nil {
		return nil, err
	}
	if version.Agent != nil {
		var a agentState
		if err := json.Unmarshal(version.Agent, &a); err != nil {
			return nil, xerrors.Errorf("decode agent: %w", err)
		}
		agent := object{}
		agent.put(a)
		if a.HeartbeatTimeoutS != int64(seconds(defaultHeartbeat)) {
			agent["heartbeat_timeout"] = spanOf(a.HeartbeatTimeoutS).inFile()
		}
		if a.DataPlane != nil && !*a.DataPlane {
			agent["data_plane"] = false
		}
		o["agent"] = agent
	}
	var list []object
	for _, p := range presets {
		state, err := stateOf(p, forges)
		if err != nil {
			return nil, err
		}
		change(p.Name, &state.poolState)
		list = append(list, writePreset(p.Name, state))
	}
	if len(list) > 0 {
		o["presets"] = list
	}
	return o, nil
}

type object map[string]any

func writePreset(name string, s presetState) object {
	o := object{"name": name}
	o.put(s)
	if s.Instances != nil {
		pool := object{"instances": s.Instances}
		if s.AllMachines {
			pool["instances"] = all
		}
		pool.put(s.poolState)
		o["prebuilds"] = pool
	}
	return o
}

// writeFreeform is a stored value with its numbers as a file can have them.
func writeFreeform(raw json.RawMessage) (any, error) {
	value, err := decoded(raw)
	return withNumbers(value, readable), err
}

// readable has large numbers with an exponent: jsonb writes all their zeros, and YAML reads those as an integer that is too
// large to be one.
func readable(n json.Number) any {
	_, notInt := n.Int64()
	_, notUint := strconv.ParseUint(n.String(), 10, 64)
	f, notFloat := n.Float64()
	if notInt == nil || notUint == nil || notFloat != nil || strings.ContainsAny(n.String(), ".eE") {
		return n
	}
	return json.RawMessage(strconv.FormatFloat(f, 'e', -1, 64))
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
