package storm_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/judge"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

// tick of the replicas: short, so that a run of minutes has many.
const tick = 2 * time.Second

// replica is one server at one address, whoever serves it just now.
type replica struct {
	t       testing.TB
	options e2etest.Options
	toDB    *link
	toIt    *link

	mu      sync.Mutex // held by one fault at a time
	server  *e2etest.Server
	servers map[*e2etest.Server]bool // all there were, and whether of the binary before
	older   bool                     // it runs the binary before
	freezes []judge.Freeze
	starts  int // that failed, since the database was away for too long
}

func newReplica(t testing.TB, n int, dir, postgres string) *replica {
	t.Helper()
	r := &replica{t: t, servers: map[*e2etest.Server]bool{}}
	listen := freeAddress(t)
	r.toDB = newLink(t, fmt.Sprintf("database-%d", n), postgres)
	r.toIt = newLink(t, fmt.Sprintf("replica-%d", n), listen)
	r.options = e2etest.Options{
		PostgresURL: "postgres://prewarm@" + r.toDB.address + "/prewarm?sslmode=disable",
		DataDir:     filepath.Join(dir, fmt.Sprintf("replica-%d", n)),
		Replica:     fmt.Sprintf("replica-%d", n), Listen: listen, Tick: tick,
	}
	return r
}

// start starts it, however often that fails while its database is away.
func (r *replica) start(binary string) {
	opts := r.options
	opts.Binary = binary
	for deadline := time.Now().Add(patience); ; {
		server, err := e2etest.TryStart(r.t, opts)
		if err == nil {
			r.server, r.servers[server] = server, binary != ""
			return
		}
		if time.Now().After(deadline) {
			r.t.Errorf("%s does not start: %v", opts.Replica, err)
			r.server = nil
			return
		}
		r.starts++
	}
}

// freeze stops it for a while and notes when. It is over when the process runs again, so that what it does then comes
// after.
func (r *replica) freeze(ctx context.Context, d time.Duration) {
	from := time.Now()
	r.server.Signal(syscall.SIGSTOP)
	rest(ctx, d)
	to := time.Now()
	r.server.Signal(syscall.SIGCONT)
	r.freezes = append(r.freezes, judge.Freeze{Replica: r.options.Replica, From: from, To: to})
}

func (r *replica) kill() {
	if r.server != nil {
		r.server.Kill()
	}
}

// stop ends it in order (G6), as an upgrade does.
func (r *replica) stop() {
	if r.server == nil {
		return
	}
	r.server.Signal(syscall.SIGTERM)
	select {
	case <-r.server.Done():
	case <-time.After(patience):
		r.t.Errorf("%s does not stop", r.options.Replica)
		r.server.Kill()
	}
}

func startReplicas(t testing.TB, n int, dir, postgres, binary string) []*replica {
	t.Helper()
	var all []*replica
	for i := range n {
		r := newReplica(t, i, dir, postgres)
		r.start(binary)
		require.NotNil(t, r.server)
		all = append(all, r)
	}
	return all
}
