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
	var details []error
	hostileLines(reflect.ValueOf(in), "", &details)
	if len(details) == 0 {
		return nil
	}
	return huma.Error422UnprocessableEntity("validation failed", details...)
}

func hostileLines(v reflect.Value, at string, details *[]error) {
	switch v.Kind() { //nolint:exhaustive // others have no texts, or a handler's own
	case reflect.Pointer:
		hostileLines(v.Elem(), at, details)
	case reflect.Slice:
		for i := range v.Len() {
			if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
				hostileLines(v.Index(i), at+"["+strconv.Itoa(i)+"]", details)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			value, path := v.Field(i), strings.TrimPrefix(at+"."+nameOf(field), ".")
			if value.Kind() == reflect.Pointer && !value.IsNil() {
				value = value.Elem()
			}
			if value.Kind() != reflect.String {
				hostileLines(value, path, details)
				continue
			}
			limit, err := strconv.Atoi(field.Tag.Get("maxLength"))
			if text := value.String(); err == nil && limit <= maxLine && printable.Text(text) != text {
				*details = append(*details, &huma.ErrorDetail{
					Location: path, Value: printable.Text(text),
					Message: "has control characters, or invisible ones that change how others are shown: leave them out",
				})
			}
		}
	}
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
