package forgetest

import (
	"cmp"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// Options of a forge. The zero value is a GitHub without faults that listens on loopback.
type Options struct {
	Gitea  bool
	Token  string // that it takes; default: "secret-token"
	Roots  []string
	Seed   uint64
	TLS    *tls.Config // nil: plain HTTP
	Clock  quartz.Clock
	Faults Faults
	// OldServer has no just-in-time configurations (GitHub), or no disabling of runners and POST of tokens (Gitea).
	OldServer bool
	// TokenLife is how long tokens of installations are good for; default 1 h.
	TokenLife time.Duration
	// RateLimit is how many requests are let through in each RateWindow (default 1 h); 0: any.
	RateLimit  int
	RateWindow time.Duration
	// Before is called before each request of the API is answered: what happens between two calls. It may use the Forge.
	Before  func(*http.Request)
	Groups  map[string]int64 // runner groups beside the default one
	Address string           // default: any port of loopback
	// Package is the file of the download of the runner; none: 404. As many of the first as PackageAbsent says are answered with
	// 404 too.
	Package       string
	PackageAbsent int
}

// Faults are shares from 0 to 1.
type Faults struct {
	Errors  float64 // requests answered with 502, half of them after they had their effect
	Slow    float64 // requests that take SlowFor longer
	SlowFor time.Duration
	Lose    float64 // webhooks that are logged as failed and not sent
	Repeat  float64 // webhooks that are sent twice
	Delay   float64 // webhooks that are sent up to DelayFor later, and so after later ones
	DelayBy time.Duration
}

// Forge is a running one.
type Forge struct {
	URL     string // of the server
	API     string // for forge.Connection
	opts    Options
	clock   quartz.Clock
	server  *http.Server
	ctx     context.Context // ends with it
	stop    context.CancelFunc
	sending sync.WaitGroup
	senders chan struct{}

	mu        sync.Mutex
	random    *rand.Rand
	faults    Faults
	nextID    int64
	runners   map[int64]*runner
	jobs      []*job // in order of their ids
	byID      map[int64]*job
	hooks     map[int64]*hook
	tokens    map[string]time.Time // of installations, until when
	regTokens map[string]string    // registration token -> root
	requests  map[string]int
	rate      window
	limited   time.Time // a secondary limit holds until then
	downloads int
	judge     Judge
}

// runner is one that is registered.
type runner struct {
	id        int64
	root      string
	name      string
	labels    []string
	secret    string
	ephemeral bool
	disabled  bool
	hand      chan *job // where it waits for a job; nil: it is not connected, or at a job
	online    bool
	job       *job
}

// Start serves until the context ends or Close is called.
func Start(ctx context.Context, opts Options) (*Forge, error) {
	opts.Token, opts.Address = cmp.Or(opts.Token, "secret-token"), cmp.Or(opts.Address, "127.0.0.1:0")
	opts.TokenLife, opts.RateWindow = cmp.Or(opts.TokenLife, time.Hour), cmp.Or(opts.RateWindow, time.Hour)
	opts.Clock = cmp.Or(opts.Clock, quartz.NewReal())
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", opts.Address)
	if err != nil {
		return nil, xerrors.Errorf("listen: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	f := &Forge{
		URL: "http://" + listener.Addr().String(), opts: opts, clock: opts.Clock, ctx: ctx, stop: stop,
		senders: make(chan struct{}, 8),
		random:  rand.New(rand.NewPCG(opts.Seed, 1)), faults: opts.Faults, nextID: 1000, runners: map[int64]*runner{},
		byID: map[int64]*job{}, hooks: map[int64]*hook{}, tokens: map[string]time.Time{}, regTokens: map[string]string{},
		requests: map[string]int{},
	}
	if opts.TLS != nil {
		f.URL, listener = "https://"+listener.Addr().String(), tls.NewListener(listener, opts.TLS)
	}
	f.API = f.URL
	if !opts.Gitea {
		f.API += "/api/v3"
	}
	f.server = &http.Server{
		Handler: f.handler(), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = f.server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = f.server.Close() })
	return f, nil
}

// Close ends it, with every connection, and waits for the webhooks that are on their way.
func (f *Forge) Close() {
	f.stop()
	f.sending.Wait()
}

// SetFaults changes them from now on.
func (f *Forge) SetFaults(faults Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

// LimitFor answers every request with 429 for as long.
func (f *Forge) LimitFor(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited = f.clock.Now().Add(d)
}

// Requests counts those of a path's last part, such as generate-jitconfig, or all by "".
func (f *Forge) Requests(last string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[last]
}

// id is a new one. The forge is locked.
func (f *Forge) id() int64 {
	f.nextID++
	return f.nextID
}

// chance draws. The forge is locked.
func (f *Forge) chance(share float64) bool { return share > 0 && f.random.Float64() < share }

// AddRunner registers one that never connects, and returns its id.
func (f *Forge) AddRunner(root, name string, labels ...string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.register(root, name, labels).id
}

// register adds a runner. The forge is locked.
func (f *Forge) register(root, name string, labels []string) *runner {
	r := &runner{id: f.id(), root: root, name: name, labels: labels, secret: uuid.NewString(), ephemeral: true}
	f.runners[r.id] = r
	return r
}

// RunnerNames are those of all that are registered, sorted.
func (f *Forge) RunnerNames() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.runners))
	for _, r := range f.runners {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// Idle counts the runners that are connected and have no job.
func (f *Forge) Idle() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.runners {
		if r.online && r.job == nil {
			n++
		}
	}
	return n
}

// RemoveRunner is what happens when a person removes one at the forge.
func (f *Forge) RemoveRunner(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(f.runners[id])
}

// drop forgets a runner, and ends its connection. The forge is locked.
func (f *Forge) drop(r *runner) {
	if r == nil {
		return
	}
	if r.hand != nil {
		close(r.hand)
		r.hand = nil
	}
	delete(f.runners, r.id)
}

// covers says whether an entity's runners take jobs of a repository.
func covers(root, repository string) bool {
	kind, path, _ := strings.Cut(root, "/")
	switch kind {
	case "repos":
		return strings.EqualFold(path, repository)
	case "orgs":
		owner, _, _ := strings.Cut(repository, "/")
		return strings.EqualFold(path, owner)
	}
	return true
}

// takes says whether it is an idle runner for the job.
func (r *runner) takes(j *job) bool {
	return r.hand != nil && r.job == nil && !r.disabled && covers(r.root, j.Repository) &&
		forge.Serves(forge.Labels(r.labels), forge.Labels(j.Labels))
}
