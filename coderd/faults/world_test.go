package faults_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// patience is how long anything may take that takes seconds on an idle machine; only a hang takes longer.
const patience = 2 * time.Minute

// world is one database and one cloud, for processes that come and go.
type world struct {
	t     *testing.T
	dir   string
	url   string
	store *database.Store
	cloud *sim.Provider // as the test sees it, behind all faults
	tier  string        // of the pool; empty: running
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults-") // short: a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, dir: dir, url: dbtest.URL(t)}
	w.store = dbtest.OpenURL(t, w.url, database.Options{MaxConns: 2})
	w.cloud, err = sim.New(sim.Options{Root: filepath.Join(dir, "cloud")})
	require.NoError(t, err)
	return w
}

// process is a server, and the line to the witness in it.
type process struct {
	*e2etest.Server
	w     *world
	conn  net.Conn
	heard chan string
}

// start starts one that stops at a moment, and whose provider fails once in a way.
func (w *world) start(name, stop, fail string) *process {
	w.t.Helper()
	socket := filepath.Join(w.dir, name+".sock")
	listener, err := new(net.ListenConfig).Listen(w.t.Context(), "unix", socket)
	require.NoError(w.t, err)
	defer listener.Close()
	self, err := os.Executable()
	require.NoError(w.t, err)
	// A transaction that a frozen process holds open is ended by PostgreSQL, here sooner than by default.
	url := w.url + map[bool]string{true: "&", false: "?"}[strings.Contains(w.url, "?")] +
		"idle_in_transaction_session_timeout=4000&pool_max_conns=8"
	p := &process{w: w, heard: make(chan string, 100), Server: e2etest.Start(w.t, e2etest.Options{
		Binary: self, PostgresURL: url, Replica: name, Tick: time.Second,
		Env: []string{socketVariable + "=" + socket, stopVariable + "=" + stop, failVariable + "=" + fail},
	})}
	if stop == never {
		return p
	}
	p.conn, err = listener.Accept()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = p.conn.Close() })
	go func() {
		defer close(p.heard)
		for lines := bufio.NewScanner(p.conn); lines.Scan(); {
			p.heard <- lines.Text()
		}
	}()
	return p
}

// next is what the witness says next.
func (p *process) next(what string) string {
	p.w.t.Helper()
	select {
	case line, ok := <-p.heard:
		require.True(p.w.t, ok, "the process ended before it came to be %s", what)
		return line
	case <-time.After(patience):
		require.FailNow(p.w.t, "the process never was "+what)
		return ""
	}
}

// awaitStop waits until it stands at the moment.
func (p *process) awaitStop(moment string) {
	p.w.t.Helper()
	require.Equal(p.w.t, "at "+moment, p.next("at "+moment))
}

// freeze stops the whole process.
func (p *process) freeze() {
	p.w.t.Helper()
	p.Signal(syscall.SIGSTOP)
	p.w.eventually("the process is frozen", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		require.NoError(p.w.t, err)
		return strings.HasPrefix(string(stat[slices.Index(stat, ')')+2:]), "T")
	})
}

// wake lets it go on from where it was, and returns what became of the first thing it did.
func (p *process) wake() string {
	p.w.t.Helper()
	p.Signal(syscall.SIGCONT)
	_, err := fmt.Fprintln(p.conn, "go")
	require.NoError(p.w.t, err)
	return p.next("awake")
}

// pool makes the preset one of so many instances, by whatever server.
func (w *world) pool(s *e2etest.Server, instances int, spec string) {
	w.t.Helper()
	_, err := s.Client.Apply(context.Background(), sdk.ApplyRequest{Document: fmt.Sprintf(`
providers:
  - {name: cloud, kind: sim, config: {root: %q}}
templates:
  - name: t
    provider: cloud
    spec: {%s}
    presets: [{name: default, prebuilds: {instances: %d, standby: %s}}]
`, filepath.Join(w.dir, "cloud"), spec, instances, cmp.Or(w.tier, "running"))})
	require.NoError(w.t, err)
}

// image is all that a late worker could change.
type image struct {
	workspaces []workspace
	jobs       []job
	history    int
	resources  []sim.Resource
}

type workspace struct {
	ID         uuid.UUID
	Name       string
	State      string
	ProviderID string
}

type job struct {
	ID      uuid.UUID
	Kind    string
	State   string
	Attempt int
}

func (w *world) look() image {
	w.t.Helper()
	ctx := context.Background()
	var i image
	rows, err := w.store.Pool.Query(ctx, "SELECT id, name, state::text, provider_id FROM workspaces ORDER BY id")
	require.NoError(w.t, err)
	i.workspaces, err = pgx.CollectRows(rows, pgx.RowToStructByPos[workspace])
	require.NoError(w.t, err)
	rows, err = w.store.Pool.Query(ctx, "SELECT id, kind::text, state::text, attempt FROM jobs ORDER BY id")
	require.NoError(w.t, err)
	i.jobs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[job])
	require.NoError(w.t, err)
	require.NoError(w.t, w.store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspace_history").Scan(&i.history))
	i.resources, err = w.cloud.All()
	require.NoError(w.t, err)
	slices.SortFunc(i.resources, func(a, b sim.Resource) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return i
}

// settled says why not all is done: so many workspaces ready, each with its one resource, and nothing else anywhere.
func (w *world) settled(want int) string {
	w.t.Helper()
	i := w.look()
	var intents int
	require.NoError(w.t, w.store.Pool.QueryRow(context.Background(),
		"SELECT (SELECT count(*) FROM intents) + (SELECT count(*) FROM standby_moves)").Scan(&intents))
	rest := "ready"
	if w.tier == "stopped" {
		rest = "standby"
	}
	live := map[string]workspace{}
	for _, ws := range i.workspaces {
		if ws.State == "deleted" {
			continue
		}
		if ws.State != rest {
			return ws.Name + " is " + ws.State
		}
		live[ws.Name] = ws
	}
	for _, j := range i.jobs {
		if j.State == "pending" || j.State == "running" {
			return fmt.Sprintf("job %s is %s", j.Kind, j.State)
		}
	}
	if len(live) != want || intents > 0 {
		return fmt.Sprintf("%d workspaces live, %d intents", len(live), intents)
	}
	for _, r := range i.resources {
		ws, ok := live[r.Name]
		if !ok || ws.ProviderID != r.ProviderID || r.Tags.WorkspaceID != ws.ID {
			return "the cloud has " + r.Name + ", of which the database does not know"
		}
		if r.Stopped != (rest == "standby") {
			return r.Name + " is " + ws.State + ", and the cloud says otherwise"
		}
	}
	if len(i.resources) != want {
		return fmt.Sprintf("the cloud has %d resources", len(i.resources))
	}
	return ""
}

// settle waits until all is done, and checks that there never were two resources of one workspace.
func (w *world) settle(want int, when string) {
	w.t.Helper()
	var why string
	w.eventuallyOr("all is done "+when, func() bool { why = w.settled(want); return why == "" }, &why)
	twice, err := w.cloud.Duplicates()
	require.NoError(w.t, err)
	require.Empty(w.t, twice, "there were two resources of one workspace at a time")
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	w.eventuallyOr(what, ok, new(string))
}

func (w *world) eventuallyOr(what string, ok func() bool, why *string) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-ticker.C {
		require.True(w.t, time.Now().Before(deadline), "%s: %s", what, *why)
	}
}
