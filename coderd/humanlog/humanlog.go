// Package humanlog writes log lines for people.
package humanlog

import (
	"context"
	"io"
	"reflect"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
)

// Sink writes to w what sloghuman does, and says what errors say. By itself that writes each struct as JSON, and so also
// an error that is a struct: of context.DeadlineExceeded it says {}.
func Sink(w io.Writer) slog.Sink { return sink{sloghuman.Sink(w)} }

type sink struct{ slog.Sink }

func (s sink) LogEntry(ctx context.Context, e slog.SinkEntry) {
	fields := make(slog.Map, len(e.Fields))
	for i, f := range e.Fields {
		if err, ok := f.Value.(error); ok && reflect.TypeOf(err).Kind() == reflect.Struct {
			f.Value = err.Error()
		}
		fields[i] = f
	}
	e.Fields = fields
	s.Sink.LogEntry(ctx, e)
}
