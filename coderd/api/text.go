package api

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/printable"
)

// maxLine is how long, in bytes, a text may be that is shown on one line: a name, a reason, a key. What may be longer is a
// document, a certificate or a secret, and is shown nowhere or with care.
const maxLine = 1_000

// checkLines refuses texts of a request that could steer the terminal, log or page in which others see them.
func checkLines(in any) error {
	hostile := hostileLines(reflect.ValueOf(in))
	if len(hostile) == 0 {
		return nil
	}
	details := make([]error, len(hostile))
	for i, d := range hostile {
		d.Location = strings.TrimPrefix(d.Location, ".")
		details[i] = d
	}
	return huma.Error422UnprocessableEntity("validation failed", details...)
}

// hostileLines are the details of such texts in a value, by where they are in it. Every request is looked through, and hardly one
// has any: names and tags of fields are read only where there is one.
func hostileLines(v reflect.Value) (all []*huma.ErrorDetail) {
	switch v.Kind() { //nolint:exhaustive // others have no texts, or a handler's own
	case reflect.Pointer:
		return hostileLines(v.Elem())
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer {
			return nil
		}
		for i := range v.Len() {
			for _, d := range hostileLines(v.Index(i)) {
				d.Location = "[" + strconv.Itoa(i) + "]" + d.Location
				all = append(all, d)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			for _, d := range hostileField(v, i) {
				d.Location = "." + nameOf(v.Type().Field(i)) + d.Location
				all = append(all, d)
			}
		}
	}
	return all
}

func hostileField(v reflect.Value, i int) []*huma.ErrorDetail {
	value := v.Field(i)
	if !value.CanInterface() { // it is not exported
		return nil
	}
	if value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	if value.Kind() != reflect.String {
		return hostileLines(value)
	}
	text := value.String()
	shown := printable.Text(text)
	if shown == text {
		return nil
	}
	if limit, err := strconv.Atoi(v.Type().Field(i).Tag.Get("maxLength")); err != nil || limit > maxLine {
		return nil
	}
	return []*huma.ErrorDetail{{
		Value: shown, Message: "has control characters, or invisible ones that change how others are shown: leave them out",
	}}
}

// nameOf is what a request calls a field.
func nameOf(field reflect.StructField) string {
	for _, key := range []string{"path", "query", "header", "json"} {
		if name, _, _ := strings.Cut(field.Tag.Get(key), ","); name != "" {
			return name
		}
	}
	return strings.ToLower(field.Name)
}

// idOrNil is an id that may be missing.
func idOrNil(id uuid.NullUUID) *uuid.UUID {
	if !id.Valid {
		return nil
	}
	return &id.UUID
}

// inSeconds writes so many seconds as a duration, such as 1m30s; empty for none.
func inSeconds[N int32 | int64](n N) string {
	if n == 0 {
		return ""
	}
	return (time.Duration(n) * time.Second).String()
}
