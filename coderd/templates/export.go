package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
)

// Export is the file that changes nothing: a template as it is, in YAML. Settings at their defaults are left out, and the
// others stand in a fixed order, so the same template is always the same text. Errors for the caller are *auth.Refusal.
func (s *Service) Export(ctx context.Context, by auth.Identity, template string) (document string, err error) {
	err = s.Store.InTx(ctx, database.TxOptions{Label: "export template", Isolation: pgx.RepeatableRead, ReadOnly: true},
		func(ctx context.Context, tx pgx.Tx) error {
			row, err := templatesdb.New(tx).TemplateNamed(ctx, templatesdb.TemplateNamedParams{
				OrganizationID: by.OrganizationID, Name: template,
			})
			if database.NoRows(err) {
				return unknownTemplate(ctx, tx, by.OrganizationID, template)
			}
			if err != nil {
				return xerrors.Errorf("read template: %w", err)
			}
			written, err := writeWhole(ctx, tx, row, func(string, *presetState) {})
			if err != nil {
				return err
			}
			withoutDefaults(row, written)
			document, err = writeYAML(object{"templates": []object{written}})
			return err
		})
	return document, err
}

// withoutDefaults leaves out what a file need not say. TestExport holds that an apply then reads the same.
func withoutDefaults(row database.Template, template object) {
	template.drop("description", "")
	template.drop("keep_outdated", true)
	template.drop("idle_cost_per_hour", 0.0)
	template.shorten("boot_timeout")
	template.drop("boot_timeout", shortDuration(defaultBoot.String()))
	if rollout, ok := template["rollout"].(object); ok {
		is := defaultRollout()
		rollout.shorten("progress_deadline")
		rollout.drop("max_surge", string(is.MaxSurge))
		rollout.drop("progress_deadline", shortDuration(is.ProgressDeadline.String()))
		if len(rollout) == 0 {
			delete(template, "rollout")
		}
	}
	if claims, ok := template["claims"].(object); ok {
		claims.shorten("lease")
		if len(claims) == 0 {
			delete(template, "claims")
		}
	}
	if kept, ok := template["keep_failures"].(object); ok {
		kept.shorten("ttl")
		kept.drop("ttl", shortDuration(defaultKeptTTL.String()))
		if row.KeepFailures == 0 && len(kept) == 1 {
			delete(template, "keep_failures")
		}
	}
	if agent, ok := template["agent"].(object); ok {
		agent.shorten("heartbeat_timeout")
		agent.drop("heartbeat_timeout", shortDuration(defaultHeartbeat.String()))
	}
	presets, _ := template["presets"].([]object)
	for _, preset := range presets {
		if parameters, ok := preset["parameters"].(map[string]string); ok && len(parameters) == 0 {
			delete(preset, "parameters")
		}
		if runner, ok := preset["runner"].(*runnerState); ok && runner.RegistrationTimeout == defaultRegistration.String() {
			short := *runner
			short.RegistrationTimeout = ""
			preset["runner"] = &short
		}
		pool, ok := preset["prebuilds"].(object)
		if !ok {
			continue
		}
		pool.drop("priority", int32(0))
		pool.shorten("ttl")
		pool.shorten("min_remaining")
		pool.drop("ttl_jitter", percent(defaultTTLJitter))
	}
	if len(presets) == 0 {
		delete(template, "presets")
	}
}

// drop leaves a setting out where it has that value.
func (o object) drop(key string, value any) {
	if o[key] == value {
		delete(o, key)
	}
}

func (o object) shorten(key string) {
	if text, ok := o[key].(string); ok {
		o[key] = shortDuration(text)
	}
}

// shortDuration is "20m" for "20m0s", as people write it.
func shortDuration(text string) string {
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// settingsOrder is the order of settings in an exported file; others, such as those of a spec, follow by name.
var settingsOrder = []string{
	"instances", "lease", "maximum", "maximum_per_user", "ttl", "ttl_jitter", "min_remaining", "schedule", "standby", "autosize",
	"priority", // of a pool, and of what bounds claims and failures
	"name", "description", "provider", "boot_timeout", "keep_outdated", "rollout", "creates_in_flight", "reuse", "max_uses",
	"claims", "keep_failures", "idle_cost_per_hour", "stopped_cost_per_hour", "agent", "spec", "presets",
	"parameters", "prebuilds", "on_start", "runner", "on_claim", "heartbeat_timeout", "data_plane", "mode", "min", "max", "target", "timezone",
}

// MarshalJSON writes the settings in the order of settingsOrder.
func (o object) MarshalJSON() ([]byte, error) {
	place := func(key string) int {
		if i := slices.Index(settingsOrder, key); i >= 0 {
			return i
		}
		return len(settingsOrder)
	}
	keys := slices.SortedFunc(maps.Keys(o), func(a, b string) int {
		if byPlace := place(a) - place(b); byPlace != 0 {
			return byPlace
		}
		return strings.Compare(a, b)
	})
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		value, err := writeJSON(o[key])
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.WriteString(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func writeYAML(value any) (string, error) {
	ordered, err := writeJSON(value)
	if err != nil {
		return "", err
	}
	var read any
	if err := yaml.UnmarshalWithOptions([]byte(ordered), &read, yaml.UseOrderedMap()); err != nil {
		return "", xerrors.Errorf("read configuration: %w", err)
	}
	// The library leaves "? x" without quotes, which is a key.
	text, err := yaml.MarshalWithOptions(read, yaml.CustomMarshaler(func(text string) ([]byte, error) {
		if strings.HasPrefix(text, "?") {
			return json.Marshal(text)
		}
		return yaml.Marshal(text)
	}))
	if err != nil {
		return "", xerrors.Errorf("write configuration as YAML: %w", err)
	}
	return string(text), nil
}
