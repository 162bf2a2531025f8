package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/xerrors"
)

// hint tells the reader what they may want to do next. It is not part of the output.
func (a *app) hint(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, format+"\n", args...)
}

// print writes value as JSON or YAML where that was asked for, else text.
func (a *app) print(value any, text string) error {
	if a.machine() {
		var err error
		if text, err = a.machineText(value, "  "); err != nil {
			return err
		}
	}
	return a.write(text)
}

// printf is print with a text that is made of a format.
func (a *app) printf(value any, format string, args ...any) error {
	return a.print(value, fmt.Sprintf(format, args...))
}

// write writes text to the output.
func (a *app) write(text string) error {
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return xerrors.Errorf("write output: %w", err)
	}
	return nil
}

// machine says whether the output is for programs: JSON, or YAML of the same fields.
func (a *app) machine() bool { return a.output == "json" || a.output == "yaml" }

// machineText is value for programs. The indent is that of JSON.
func (a *app) machineText(value any, indent string) (string, error) {
	text, err := jsonText(value, indent)
	if err != nil || a.output != "yaml" {
		return text, err
	}
	return yamlText(text)
}

// yamlText is JSON as YAML, with its fields in their order.
func yamlText(document string) (string, error) {
	content, err := yaml.JSONToYAML([]byte(document))
	if err != nil {
		return "", xerrors.Errorf("write yaml: %w", err)
	}
	return string(content), nil
}

// jsonText is value in the stable form: the names of the API, and an empty array or object where Go has a nil one. It
// fills these in inside value.
func jsonText(value any, indent string) (string, error) {
	v := reflect.New(reflect.TypeOf(value)).Elem()
	v.Set(reflect.ValueOf(value))
	fillNil(v)
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v.Interface()); err != nil {
		return "", xerrors.Errorf("write json: %w", err)
	}
	return text.String(), nil
}

// fillNil replaces nil slices and maps in v, which is addressable. Bytes stay as they are: they are JSON already.
func fillNil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillNil(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fillNil(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillNil(v.Elem())
		}
	default:
	}
}

// ago is how long before now a time was, in one unit: "3m ago". A time to come is "in 2h5m", and never rounded down.
func (a *app) ago(t time.Time) string {
	d := a.clock.Since(t)
	switch {
	case d < -time.Second:
		return "in " + left(-d)
	case d < time.Second:
		return "now"
	default:
		return age(d) + " ago"
	}
}

// agoOr is ago for a time that may be missing.
func (a *app) agoOr(t *time.Time, missing string) string {
	if t == nil {
		return missing
	}
	return a.ago(*t)
}

// left is how long it is until a time to come, rounded up to the smaller of two units.
func left(d time.Duration) string {
	up := func(unit time.Duration) time.Duration {
		if whole := d.Truncate(unit); whole < d {
			return whole + unit
		}
		return d
	}
	var text string
	switch {
	case d <= 2*time.Minute:
		text = up(time.Second).String()
	case d < 48*time.Hour:
		text = strings.TrimSuffix(up(time.Minute).String(), "0s")
	default:
		hours := int(up(time.Hour).Hours())
		text = fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
	for _, zero := range [][2]string{{"m0s", "m"}, {"h0m", "h"}, {"d0h", "d"}} {
		if rest, found := strings.CutSuffix(text, zero[0]); found {
			text = rest + zero[1]
		}
	}
	return text
}

func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
