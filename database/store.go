package database

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/xerrors"
)

const (
	connectTimeout     = 5 * time.Second
	keepAlive          = 15 * time.Second
	statementTimeout   = 30 * time.Second
	lockTimeout        = 10 * time.Second
	idleInTxTimeout    = 30 * time.Second
	defaultMaxConns    = 20
	warmConns          = 2 // kept open, so that a claim after a quiet hour does not wait for a connection
	maxConnLifetime    = time.Hour
	asideConns         = 2
	asideIdle          = time.Minute
	healthCheckPeriod  = 15 * time.Second
	maxApplicationName = 63 // bytes; PostgreSQL cuts off the rest
)

// Store is the database as one replica sees it: a pool of connections, on which a room opens the statements of its group,
// as in claimdb.New(store). Each such statement is a transaction of its own.
type Store struct {
	// Pool is for what is not a query: Acquire for a session of one's own, Stat for metrics, Ping.
	Pool *pgxpool.Pool

	aside  *pgxpool.Pool // nil: it is asked like the rest
	conn   Conn
	clock  quartz.Clock
	jitter func(most time.Duration) time.Duration
}

// Conn is what a Store asks of PostgreSQL: single statements, and transactions. A pool is one.
type Conn interface {
	DBTX
	BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
}

// Over returns a Store without a pool on whatever answers: a simulation puts itself between the two. jitter makes the
// pauses of reruns from their upper bounds.
func Over(conn Conn, clock quartz.Clock, jitter func(most time.Duration) time.Duration) *Store {
	return &Store{conn: conn, clock: clock, jitter: jitter}
}

// Options of Open. The zero value is ready to use.
type Options struct {
	Replica  string       // shown in pg_stat_activity as application_name prewarm/<replica>
	MaxConns int32        // upper bound of the pool; 0: pool_max_conns of the URL, else 20
	Clock    quartz.Clock // paces the reruns of InTx; nil: the real one

	Tracer pgx.QueryTracer // sees every statement; nil: none
}

// Open prepares a pool for the database at url (a postgres:// URL or a keyword=value string). It does not wait for the
// database, which may well be away: the first query connects. Settings in the URL win over the ones made here.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, xerrors.Errorf("parse database URL: %w", err)
	}
	opts.Clock = cmp.Or(opts.Clock, quartz.NewReal())

	switch {
	case opts.MaxConns > 0:
		config.MaxConns = opts.MaxConns
	case !strings.Contains(url, "pool_max_conns="):
		config.MaxConns = defaultMaxConns
	}
	if !strings.Contains(url, "pool_min_idle_conns=") {
		config.MinIdleConns = min(warmConns, config.MaxConns)
	}
	config.MaxConnLifetime = maxConnLifetime
	config.MaxConnLifetimeJitter = maxConnLifetime / 10
	config.HealthCheckPeriod = healthCheckPeriod

	ConfigureSession(config.ConnConfig, opts.Replica)
	setDefault(config.ConnConfig.RuntimeParams, "statement_timeout", milliseconds(statementTimeout))
	setDefault(config.ConnConfig.RuntimeParams, "lock_timeout", milliseconds(lockTimeout))
	setDefault(config.ConnConfig.RuntimeParams, "idle_in_transaction_session_timeout", milliseconds(idleInTxTimeout))
	config.ConnConfig.Tracer = opts.Tracer
	config.AfterConnect = mapTypes

	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, xerrors.Errorf("create connection pool: %w", err)
	}
	aside := config.Copy()
	aside.MaxConns, aside.MinIdleConns, aside.MaxConnIdleTime = asideConns, 0, asideIdle
	store := Over(pool, opts.Clock, rand.N[time.Duration])
	store.Pool = pool
	if store.aside, err = pgxpool.NewWithConfig(ctx, aside); err != nil {
		pool.Close()
		return nil, xerrors.Errorf("create connection pool: %w", err)
	}
	return store, nil
}

// Close waits for the connections in use to come back, and closes them all.
func (s *Store) Close() {
	s.Pool.Close()
	if s.aside != nil {
		s.aside.Close()
	}
}

// Reset closes the connections that are not in use, and the others when they come back. Later statements open new ones.
func (s *Store) Reset() {
	s.Pool.Reset()
	if s.aside != nil {
		s.aside.Reset()
	}
}

// Aside is for the looks that end what may not go on. They have a few connections of their own: thousands of requests that wait
// for one of the pool do not hold them up.
func (s *Store) Aside() DBTX {
	if s.aside == nil {
		return s
	}
	return s.aside
}

// Exec runs a statement of a group. It makes a Store a DBTX, and is for nothing else.
func (s *Store) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return s.conn.Exec(ctx, sql, args...)
}

// Query is as Exec.
func (s *Store) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return s.conn.Query(ctx, sql, args...)
}

// QueryRow is as Exec.
func (s *Store) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.conn.QueryRow(ctx, sql, args...)
}

// EnsureInstallation returns what tells this installation from any other, and makes it up at the very first call. The
// id goes on every resource at a provider.
func (s *Store) EnsureInstallation(ctx context.Context) (uuid.UUID, error) {
	q := New(s)
	if err := q.InsertInstallation(ctx, uuid.New()); err != nil {
		return uuid.Nil, xerrors.Errorf("insert installation: %w", err)
	}
	id, err := q.GetInstallationID(ctx)
	if err != nil {
		return uuid.Nil, xerrors.Errorf("get installation: %w", err)
	}
	return id, nil
}

// ConfigureSession makes a connection one of ours: named after the replica, in UTC, without JIT, and quick to notice
// that the server is gone. It is for the few connections outside of the pool.
func ConfigureSession(config *pgx.ConnConfig, replica string) {
	name := "prewarm"
	if replica != "" {
		name += "/" + replica
	}
	setDefault(config.RuntimeParams, "application_name", name[:min(len(name), maxApplicationName)])
	setDefault(config.RuntimeParams, "timezone", "UTC")
	setDefault(config.RuntimeParams, "jit", "off")
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeout)
	config.DialFunc = (&net.Dialer{KeepAlive: keepAlive}).DialContext
}

func setDefault(params map[string]string, name, value string) {
	if _, given := params[name]; !given {
		params[name] = value
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
