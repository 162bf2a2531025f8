package dbtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// URLEnv names the environment variable with the URL of a server to use instead of one of our own.
const URLEnv = "PREWARM_TEST_POSTGRES_URL"

// setupTimeout is a time that only a hang exceeds: processes wait for each other to copy the cluster, or to make it.
const setupTimeout = 5 * time.Minute

// server is where this process makes its databases: a superuser's URL, and what follows CREATE DATABASE name.
type server struct{ url, source string }

// running is started by the first test that needs it, and lives as long as the process.
var running = sync.OnceValues(func() (server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if given := os.Getenv(URLEnv); given != "" {
		return withTemplate(ctx, given)
	}
	url, err := startOwn(ctx)
	if err != nil {
		return server{}, err
	}
	return withTemplate(ctx, url)
})

// Open returns a store on a new database, migrated and otherwise empty. Both are gone when the test ends.
func Open(t testing.TB) *database.Store {
	t.Helper()
	return OpenURL(t, URL(t), database.Options{})
}

// OpenURL returns one more store on a database that URL has made, such as for a second replica, or with a mock clock.
func OpenURL(t testing.TB, url string, opts database.Options) *database.Store {
	t.Helper()
	opts.Replica = cmp.Or(opts.Replica, t.Name())
	store, err := database.Open(context.Background(), withoutIdle(url), opts)
	if err != nil {
		t.Fatalf("open test database: %v", err)
	}
	t.Cleanup(store.Close)
	return store
}

// URL returns the URL of a new database, migrated and otherwise empty. It is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	s, err := running()
	if err != nil {
		t.Fatalf("start PostgreSQL for tests: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := s.execute("CREATE DATABASE " + name + " " + s.source); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	t.Cleanup(func() {
		if err := s.execute("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return withDatabase(s.url, name)
}

// SetNow makes prewarm_now() stand still at the given time, for every connection to the store's database from now on;
// a store's pool connects anew, once the connections in use are back. The zero time sets the clock free.
func SetNow(t testing.TB, store *database.Store, now time.Time) {
	t.Helper()
	ctx := context.Background()
	value := ""
	if !now.IsZero() {
		value = now.UTC().Format(time.RFC3339Nano)
	}
	name := pgx.Identifier{store.Pool.Config().ConnConfig.Database}.Sanitize()
	if _, err := store.Pool.Exec(ctx, "ALTER DATABASE "+name+" SET prewarm.now = '"+value+"'"); err != nil {
		t.Fatalf("set the time of the test database: %v", err)
	}
	store.Reset()
}

func (s server) execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return xerrors.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	return execute(ctx, conn, statement)
}

// withoutIdle is the URL of a pool that opens no connection before one is needed: each costs PostgreSQL a process.
func withoutIdle(database string) string {
	const least = "pool_min_idle_conns"
	u, err := url.Parse(database)
	if err != nil || u.Query().Has(least) {
		return database // or Open says what is wrong with it
	}
	query := u.Query()
	query.Set(least, "0")
	u.RawQuery = query.Encode()
	return u.String()
}

func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // it has been connected to
	}
	u.Path = "/" + name
	return u.String()
}
