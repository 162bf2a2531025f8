// Package humanlog writes log lines for people.
package humanlog

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"cdr.dev/slog/sloggers/slogjson"

	"github.com/prewarm-dev/prewarm/coderd/printable"
)

// JSON writes to w one JSON object for each line of the log, in which nothing steers a terminal either.
func JSON(w io.Writer) slog.Sink { return slogjson.Sink(printable.JSON(w)) }

// Sink writes to w what sloghuman does, says what errors say, and lets no value steer the reader's terminal. By itself that
// writes each struct as JSON, and so also an error that is a struct: of context.DeadlineExceeded it says {}.
func Sink(w io.Writer) slog.Sink { return sink{sloghuman.Sink(w)} }

type sink struct{ slog.Sink }

func (s sink) LogEntry(ctx context.Context, e slog.SinkEntry) {
	e.Message = printable.Text(e.Message)
	fields := make(slog.Map, len(e.Fields))
	for i, f := range e.Fields {
		if err, ok := f.Value.(error); ok && reflect.TypeOf(err).Kind() == reflect.Struct {
			f.Value = err.Error()
		}
		f.Value = quoted(f.Value)
		fields[i] = f
	}
	e.Fields = fields
	s.Sink.LogEntry(ctx, e)
}

// quoted returns a value that sloghuman would write as JSON, and so without escapes for all that is hostile, as a text,
// which it quotes.
func quoted(value any) any {
	switch reflect.ValueOf(value).Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Struct, reflect.Pointer:
	default:
		return value
	}
	switch value.(type) {
	case error, fmt.Stringer:
		return value
	}
	raw, err := json.Marshal(value)
	if safe := printable.Text(string(raw)); err == nil && safe != string(raw) {
		return safe
	}
	return value
}
