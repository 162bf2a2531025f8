//go:build !race

package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/prewarm-dev/prewarm/coderd/hints"
)

// postgres is the database's side: sessions, and a goroutine outside of the bubble on which all that touches the network
// happens. The bubble's clock stands still while its scheduler waits for that goroutine.
type postgres struct {
	url   string
	work  chan func()
	done  chan struct{}
	admin *pgx.Conn // asks who waits for whom
	free  []*session
	all   int
	types *pgtype.Map
}

// session is one backend.
type session struct {
	conn  *pgx.Conn
	pid   uint32
	now   time.Time // what prewarm_now() says; zero: unknown
	heard []*pgconn.Notification
}

// setup is for sessions of a simulation: what depends on chance or on the machine's clock is off.
var setup = []string{
	"SET plan_cache_mode = force_generic_plan", "SET deadlock_timeout = '1ms'", "SET jit = off", "SET timezone = 'UTC'",
	"SET statement_timeout = 0", "SET lock_timeout = 0", "SET idle_in_transaction_session_timeout = 0",
	"LISTEN " + hints.Nudges, "LISTEN " + hints.Bindings, "LISTEN " + hints.Jobs, "LISTEN " + hints.Claims,
	"LISTEN " + hints.Inbox,
}

func openPostgres(url string) (*postgres, error) {
	p := &postgres{url: url, work: make(chan func()), done: make(chan struct{}), types: newTypes()}
	go func() {
		for f := range p.work {
			f()
			p.done <- struct{}{}
		}
	}()
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	p.admin = s.conn
	return p, nil
}

func newTypes() *pgtype.Map {
	m := pgtype.NewMap()
	m.RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return m
}

// outside runs f out of the bubble and waits for it. f must not touch a channel or context that was made inside.
func (p *postgres) outside(f func()) {
	p.work <- f
	<-p.done
}

func (p *postgres) open() (*session, error) {
	s := &session{}
	config, err := pgx.ParseConfig(p.url)
	if err != nil {
		return nil, err
	}
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		if n.PID == s.pid { // what others said arrives when the operating system likes
			s.heard = append(s.heard, n)
		}
	}
	ctx := context.Background()
	if s.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	s.pid = s.conn.PgConn().PID()
	for _, statement := range setup {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// take gives a session, the one used last first.
func (p *postgres) take() *session {
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	s, err := p.open()
	if err != nil {
		panic(fmt.Sprintf("open a session: %v", err))
	}
	p.all++
	return s
}

// put takes a session back that is in no transaction.
func (p *postgres) put(s *session) {
	if s.conn.IsClosed() {
		p.all--
		return
	}
	p.free = append(p.free, s)
}

// answer is what a statement brought, all of it.
type answer struct {
	fields  []pgconn.FieldDescription
	rows    [][][]byte
	tag     pgconn.CommandTag
	err     error
	heard   []*pgconn.Notification
	blocked bool
}

// statement is one that runs, perhaps for longer because it waits for a lock.
type statement struct {
	s    *session
	done chan answer // made outside
}

// start runs a statement and returns its answer, or blocked once it waits for a lock of another transaction.
func (p *postgres) start(s *session, now time.Time, sql string, args []any) (*statement, answer) {
	st := &statement{s: s, done: make(chan answer, 1)}
	go func() { st.done <- s.run(now, sql, args) }()
	return st, p.await(st)
}

// await waits until the statement is done or waits for a lock. Nothing else runs meanwhile, so which of the two comes
// first does not depend on time.
func (p *postgres) await(st *statement) answer {
	for pause := 2 * time.Millisecond; ; pause = time.Millisecond {
		timer := time.NewTimer(pause)
		select {
		case a := <-st.done:
			timer.Stop()
			return a
		case <-timer.C:
		}
		var waits bool
		err := p.admin.QueryRow(context.Background(), "SELECT cardinality(pg_blocking_pids($1)) > 0", st.s.pid).Scan(&waits)
		if err != nil {
			panic(fmt.Sprintf("ask who waits: %v", err))
		}
		if waits {
			return answer{blocked: true}
		}
	}
}

func (s *session) setNow(now time.Time) error {
	if s.now.Equal(now) {
		return nil
	}
	_, err := s.conn.Exec(context.Background(), "SET prewarm.now = '"+now.UTC().Format("2006-01-02 15:04:05.000000")+"Z'",
		pgx.QueryExecModeSimpleProtocol)
	s.now = now
	return err
}

func (s *session) run(now time.Time, sql string, args []any) (a answer) {
	s.heard = nil
	if !now.IsZero() {
		if a.err = s.setNow(now); a.err != nil {
			return a
		}
	}
	rows, err := s.conn.Query(context.Background(), sql, args...)
	if err != nil {
		a.err = err
		return a
	}
	for rows.Next() {
		if a.fields == nil {
			a.fields = append(a.fields, rows.FieldDescriptions()...)
		}
		raw := rows.RawValues()
		row := make([][]byte, len(raw))
		for i, v := range raw {
			if v != nil {
				row[i] = append([]byte{}, v...)
			}
		}
		a.rows = append(a.rows, row)
	}
	a.tag, a.err, a.heard = rows.CommandTag(), rows.Err(), s.heard
	return a
}

// simple runs a statement of the simulation's own.
func (s *session) simple(sql string) error {
	_, err := s.conn.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// end makes a session one without a transaction.
func (s *session) end() {
	if s.conn.IsClosed() {
		return
	}
	s.now = time.Time{} // a rollback takes the setting back too
	if s.conn.PgConn().TxStatus() != 'I' {
		_ = s.simple("ROLLBACK")
	}
}

// interrupt ends a statement that waits for a lock.
func (p *postgres) interrupt(st *statement) answer {
	_, err := p.admin.Exec(context.Background(), "SELECT pg_cancel_backend($1)", st.s.pid)
	if err != nil {
		return answer{err: err}
	}
	return <-st.done
}

// awaitGone waits until a backend that was ended is gone, with its locks.
func (p *postgres) awaitGone(pid uint32) {
	for gone := false; !gone; {
		err := p.admin.QueryRow(context.Background(), "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)",
			pid).Scan(&gone)
		if err != nil {
			panic(fmt.Sprintf("ask for a backend: %v", err))
		}
	}
}

// buffered are rows that were read to their end.
type buffered struct {
	answer
	types *pgtype.Map
	next  int
}

var _ pgx.Rows = (*buffered)(nil)

func (b *buffered) Close()                                       {}
func (b *buffered) Err() error                                   { return b.err }
func (b *buffered) CommandTag() pgconn.CommandTag                { return b.tag }
func (b *buffered) FieldDescriptions() []pgconn.FieldDescription { return b.fields }
func (b *buffered) RawValues() [][]byte                          { return b.rows[b.next-1] }
func (b *buffered) Conn() *pgx.Conn                              { return nil }
func (b *buffered) TypeMap() *pgtype.Map                         { return b.types }

func (b *buffered) Values() ([]any, error) { return nil, errors.New("not used by sqlc") }

func (b *buffered) Next() bool {
	b.next++
	return b.err == nil && b.next <= len(b.rows)
}

func (b *buffered) Scan(dest ...any) error {
	for i, d := range dest {
		f := b.fields[i]
		if err := b.types.Scan(f.DataTypeOID, f.Format, b.rows[b.next-1][i], d); err != nil {
			return fmt.Errorf("scan %s: %w", f.Name, err)
		}
	}
	return nil
}

// one is a Row.
type one struct{ *buffered }

func (o one) Scan(dest ...any) error {
	switch {
	case o.err != nil:
		return o.err
	case !o.Next():
		return pgx.ErrNoRows
	}
	return o.buffered.Scan(dest...)
}
