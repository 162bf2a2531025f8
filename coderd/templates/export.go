package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

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
				return UnknownTemplate(ctx, tx, by.OrganizationID, template)
			}
			if err != nil {
				return xerrors.Errorf("read template: %w", err)
			}
			written, err := writeTemplate(ctx, tx, row, func(string, *poolState) {})
			if err != nil {
				return err
			}
			document, err = writeYAML(object{"templates": []object{written}})
			return err
		})
	return document, err
}

// span is a duration in a state: "20m0s", or "20m" as people write it in a file; empty for none.
type span string

func spanOf[N int32 | int64](seconds N) span {
	if seconds == 0 {
		return ""
	}
	return span((time.Duration(seconds) * time.Second).String())
}

func (s span) inFile() any {
	text := string(s)
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
	"parameters", "prebuilds", "on_start", "runner", "on_claim", "heartbeat_timeout", "data_plane", "enter", "public_ports", "mode", "min", "max", "target", "timezone",
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
