package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/database"
)

// tracer sees the statements of a process under test, each by the name that it has in queries/. Its moments are
// sql:NAME:before and sql:NAME:after, where a lease is LeaseJobs/KIND and counts after it only if it got one, and
// commit:NAME:after for the commit of a transaction that had that statement in it.
type tracer struct {
	witness *witness

	mu     sync.Mutex
	within map[*pgx.Conn][]string // what was done since the transaction began
}

type statementKey struct{}

// statement is one under way.
type statement struct {
	names  []string
	commit bool
	late   bool // it is sent by a process that was stopped right before it
}

// TraceQueryStart is called before a statement is sent.
func (t *tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s := &statement{}
	switch name, named := strings.CutPrefix(data.SQL, "-- name: "); {
	case named:
		name, _, _ = strings.Cut(name, " ")
		for _, arg := range data.Args {
			if kind, ok := arg.(database.JobKind); ok && name == "LeaseJobs" {
				name += "/" + string(kind)
			}
		}
		s.names = []string{name}
		t.note(conn, func(names []string) []string { return append(names, name) })
		s.late = t.witness.reach("sql:" + name + ":before")
	case strings.HasPrefix(data.SQL, "begin"):
		t.note(conn, func([]string) []string { return nil })
	case data.SQL == "commit":
		s.commit = true
		t.note(conn, func(names []string) []string { s.names = names; return nil })
	}
	if s.late {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithValue(ctx, statementKey{}, s)
}

// TraceQueryEnd is called when its answer is there.
func (t *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	s, ok := ctx.Value(statementKey{}).(*statement)
	if !ok {
		return
	}
	rows := data.CommandTag.RowsAffected()
	if s.late {
		t.witness.say(fmt.Sprintf("late %s: %d rows, %v", s.names[0], rows, data.Err))
	}
	for _, name := range s.names {
		moment := "sql:" + name + ":after"
		if s.commit {
			moment = "commit:" + name + ":after"
		}
		if data.Err == nil && (rows > 0 || !strings.HasPrefix(name, "LeaseJobs")) && t.witness.reach(moment) {
			t.witness.say("late, after " + name)
		}
	}
}

func (t *tracer) note(conn *pgx.Conn, change func([]string) []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.within == nil {
		t.within = map[*pgx.Conn][]string{}
	}
	t.within[conn] = change(t.within[conn])
}
