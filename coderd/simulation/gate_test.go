//go:build !race

package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/database"
)

// call is one thing that waits at the gate: it leaves its replica when the scheduler says so.
type call struct {
	seq  int
	p    *process
	ctx  context.Context
	name string // of the query, the provider's call, or what else it is
	tx   *tx    // nil: a statement by itself
	sql  string
	args []any
	mark mark
	from string // the functions that made it
	// subject is what a call of the provider, or an answer, is about.
	subject string
	act     func(f fate) (any, error) // of what is no statement; runs on the scheduler
	reply   chan reply                // made inside of the bubble

	stunned bool       // its process froze just before it
	gaveUp  bool       // nobody waits for the reply any more
	st      *statement // while it waits for a lock
	since   time.Time  // when it began to
}

type mark int

const (
	markQuery mark = iota
	markBegin
	markCommit
	markRollback
	markProvider
	markAnswer
	markYield
)

type reply struct {
	answer answer
	value  any
	err    error
}

// errLost is what a broken connection looks like.
var errLost = fmt.Errorf("simulated loss of the connection: %w", io.ErrUnexpectedEOF)

// submit stands at the gate until the scheduler has let the call through, or the caller's context ends.
func (p *process) submit(c *call) reply {
	w := p.w
	c.p, c.reply, c.from = p, make(chan reply, 1), callers()
	if p.dead || w.over {
		return reply{err: errLost}
	}
	if err := c.ctx.Err(); err != nil {
		return reply{err: err}
	}
	w.arriving.Lock() // on a busy machine one goroutine may be at it when another goes on
	w.arrivals = append(w.arrivals, c)
	w.arriving.Unlock()
	w.arrived.Ring()
	select {
	case r := <-c.reply:
		return r
	case <-c.ctx.Done():
		select { // an answer that came first is not thrown away, whatever select chose
		case r := <-c.reply:
			return r
		default:
		}
		c.gaveUp = true
		if c.tx != nil {
			c.tx.broken = true
		}
		return reply{err: c.ctx.Err()}
	}
}

// callers are the functions on the stack of what stands at the gate.
func callers() string {
	var pcs [48]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprint(&b, f.Function, ":", f.Line, " ")
		if !more {
			return b.String()
		}
	}
}

// link is a process's way to the database.
type link struct{ p *process }

var _ database.Conn = link{}

var named = regexp.MustCompile(`^-- name: (\w+) `)

func nameOf(sql string) string {
	if m := named.FindStringSubmatch(sql); m != nil {
		return m[1]
	}
	return strings.ToLower(sql)
}

func (l link) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r := l.p.submit(&call{ctx: ctx, name: nameOf(sql), sql: sql, args: args})
	if r.err != nil {
		return pgconn.CommandTag{}, r.err
	}
	return r.answer.tag, r.answer.err
}

func (l link) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return l.p.query(ctx, nil, sql, args)
}

func (l link) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return l.p.row(ctx, nil, sql, args)
}

func (p *process) query(ctx context.Context, t *tx, sql string, args []any) (pgx.Rows, error) {
	r := p.submit(&call{ctx: ctx, tx: t, name: nameOf(sql), sql: sql, args: args})
	if r.err == nil {
		r.err = r.answer.err
	}
	if r.err != nil {
		return &buffered{answer: answer{err: r.err}}, r.err
	}
	return &buffered{answer: r.answer, types: p.w.pg.types}, nil
}

func (p *process) row(ctx context.Context, t *tx, sql string, args []any) pgx.Row {
	rows, _ := p.query(ctx, t, sql, args)
	return one{rows.(*buffered)}
}

func (l link) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	t := &tx{p: l.p, iso: opts.IsoLevel}
	sql := "BEGIN"
	if opts.IsoLevel != "" {
		sql += " ISOLATION LEVEL " + string(opts.IsoLevel)
	}
	if opts.AccessMode == pgx.ReadOnly {
		sql += " READ ONLY"
	}
	r := l.p.submit(&call{ctx: ctx, tx: t, name: "begin", sql: sql, mark: markBegin})
	if r.err == nil {
		r.err = r.answer.err
	}
	if r.err != nil {
		return nil, r.err
	}
	return t, nil
}

// tx is a transaction of a process on a session of its own.
type tx struct {
	p      *process
	seq    int // of its begin
	s      *session
	iso    pgx.TxIsoLevel
	began  time.Time // of the database's clock; what a REPEATABLE READ one goes by
	touch  time.Time // of the bubble's clock, when it was last used
	slow   time.Time // its next statement does not come before this, on the bubble's clock
	intent *life     // whose intent it carries out
	pass   bool      // has the timeouts of a pass
	deaf   bool      // the server's time-outs do not reach it, as when its client stopped while receiving
	wrote  bool
	closed bool
	broken bool // its client has let go of it, or lost it
	points int
}

var _ pgx.Tx = (*tx)(nil)

func (t *tx) submit(ctx context.Context, name, sql string, m mark, args []any) reply {
	if t.closed {
		return reply{err: pgx.ErrTxClosed}
	}
	if t.broken {
		return reply{err: errLost}
	}
	r := t.p.submit(&call{ctx: ctx, tx: t, name: name, sql: sql, args: args, mark: m})
	if r.err == nil {
		r.err = r.answer.err
	}
	return r
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r := t.submit(ctx, nameOf(sql), sql, markQuery, args)
	return r.answer.tag, r.err
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	r := t.submit(ctx, nameOf(sql), sql, markQuery, args)
	if r.err != nil {
		return &buffered{answer: answer{err: r.err}}, r.err
	}
	return &buffered{answer: r.answer, types: t.p.w.pg.types}, nil
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := t.Query(ctx, sql, args...)
	return one{rows.(*buffered)}
}

func (t *tx) Commit(ctx context.Context) error {
	r := t.submit(ctx, "commit", "COMMIT", markCommit, nil)
	if !errors.Is(r.err, pgx.ErrTxClosed) {
		t.closed = true
	}
	if r.err == nil && r.answer.tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return r.err
}

func (t *tx) Rollback(ctx context.Context) error {
	if t.closed || t.broken {
		return pgx.ErrTxClosed
	}
	r := t.submit(ctx, "rollback", "ROLLBACK", markRollback, nil)
	t.closed = true
	return r.err
}

func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	t.points++
	p := &savepoint{tx: t, name: fmt.Sprintf("sp%d", t.points)}
	if r := t.submit(ctx, "savepoint", "SAVEPOINT "+p.name, markQuery, nil); r.err != nil {
		return nil, r.err
	}
	return p, nil
}

// What sqlc does not use.
func (t *tx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	panic("no COPY in a simulation")
}

func (t *tx) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults {
	panic("no batches in a simulation")
}
func (t *tx) LargeObjects() pgx.LargeObjects { panic("no large objects") }
func (t *tx) Conn() *pgx.Conn                { return nil }
func (t *tx) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	panic("statements are prepared by the session")
}

type savepoint struct {
	*tx
	name string
	done bool
}

func (s *savepoint) Commit(ctx context.Context) error {
	s.done = true
	return s.submit(ctx, "release savepoint", "RELEASE SAVEPOINT "+s.name, markQuery, nil).err
}

func (s *savepoint) Rollback(ctx context.Context) error {
	if s.done {
		return pgx.ErrTxClosed
	}
	s.done = true
	return s.submit(ctx, "rollback to savepoint", "ROLLBACK TO SAVEPOINT "+s.name, markQuery, nil).err
}

// give answers a call. One that was answered before, as those of a process that crashed, hears nothing more.
func (c *call) give(r reply) {
	select {
	case c.reply <- r:
	default:
	}
}

// No call is lost that comes while another does: on a machine that is busy with other work goroutines are interrupted anywhere, also
// where there is one processor for all of them. Its caller would wait for ever.
func TestSubmit_atOnce(t *testing.T) {
	t.Parallel()
	const callers = 1000
	w := &world{arrived: hints.NewBell()}
	p := &process{w: w}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { p.submit(&call{ctx: ctx}) })
	}
	require.Eventually(t, func() bool {
		w.arriving.Lock()
		defer w.arriving.Unlock()
		return len(w.arrivals) == callers
	}, time.Minute, time.Millisecond)
	cancel()
	all.Wait()
}
