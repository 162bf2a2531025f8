package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"golang.org/x/xerrors"
)

// hint tells the reader what they may want to do next. It is not part of the output.
func (a *app) hint(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, format+"\n", args...)
}

// print writes value as JSON where that was asked for, else text.
func (a *app) print(value any, text string) error {
	if a.output == "json" {
		var err error
		if text, err = jsonText(value, "  "); err != nil {
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

// ago is how long before now a time was, in one unit: "3m ago". A time to come is "in 3m".
func (a *app) ago(t time.Time) string {
	d := a.clock.Since(t)
	switch {
	case d < -time.Second:
		return "in " + age(-d)
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
