package embedded

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"cdr.dev/slog"
)

const keptLines = 20

// output takes what PostgreSQL writes, line by line, into the log, and keeps the last lines for an error message.
type output struct {
	logger slog.Logger

	mu      sync.Mutex
	partial []byte
	last    []string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, p...)
	for {
		line, rest, complete := bytes.Cut(o.partial, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		o.partial = rest
		o.line(strings.TrimSpace(string(line)))
	}
}

func (o *output) line(line string) {
	if line == "" {
		return
	}
	o.last = append(o.last, line)
	o.last = o.last[max(0, len(o.last)-keptLines):]
	level, message, found := strings.Cut(line, ":  ")
	switch {
	case !found || level == "LOG":
		o.logger.Debug(context.Background(), "postgres: "+line)
	default:
		o.logger.Warn(context.Background(), "postgres: "+message, slog.F("level", level))
	}
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.last, "\n")
}
