package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// The environment of a process under test: a unix socket on which it speaks with the test, where it is to stop, and what
// its provider does wrong.
const (
	socketVariable = "PREWARM_FAULTS_SOCKET"
	stopVariable   = "PREWARM_FAULTS_STOP"
	failVariable   = "PREWARM_FAULTS_FAIL"
)

// never is where a process stops that doesn't.
const never = "never"

// witness is inside the process under test: it knows where that is, and holds it there.
type witness struct {
	fail string // create, permanently or delete: what the provider's first such call does, after its effect

	mu     sync.Mutex
	stops  []string // moments, in order; one that ends in #2 is let pass once
	seen   int      // how often the first of them was reached
	failed bool

	conn  net.Conn
	heard *bufio.Reader
}

func newWitness() (*witness, error) {
	w := &witness{fail: os.Getenv(failVariable), stops: strings.Split(os.Getenv(stopVariable), ",")}
	if w.stops[0] == never {
		return w, nil
	}
	var err error
	w.conn, err = new(net.Dialer).DialContext(context.Background(), "unix", os.Getenv(socketVariable))
	if err != nil {
		return nil, xerrors.Errorf("reach the test: %w", err)
	}
	w.heard = bufio.NewReader(w.conn)
	return w, nil
}

// reach is called at each moment. At the one where the process is to stop, it says so and returns true when it may go
// on.
func (w *witness) reach(moment string) bool {
	if !w.isNext(moment) {
		return false
	}
	w.say("at " + moment)
	if _, err := w.heard.ReadString('\n'); err != nil {
		os.Exit(3) // the test is over
	}
	return true
}

func (w *witness) isNext(moment string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.stops) == 0 {
		return false
	}
	next, second := strings.CutSuffix(w.stops[0], "#2")
	if moment != next {
		return false
	}
	w.seen++
	if second && w.seen < 2 {
		return false
	}
	w.stops, w.seen = w.stops[1:], 0
	return true
}

func (w *witness) say(line string) {
	if _, err := fmt.Fprintln(w.conn, strings.ReplaceAll(line, "\n", " ")); err != nil {
		os.Exit(3)
	}
}

// refuses says whether a call of this kind is the one that fails.
func (w *witness) refuses(kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != kind || w.failed {
		return false
	}
	w.failed = true
	return true
}

func (w *witness) wrap(p provider.Provider) provider.Provider { return &stopping{p, w} }

// stopping is a provider that can be stopped before and after each of its effects.
type stopping struct {
	inner provider.Provider
	w     *witness
}

// call makes a call. If the process was stopped right before it, it is made although its context has ended.
func call[T any](ctx context.Context, w *witness, kind string, do func(context.Context) (T, error)) (T, error) {
	late := w.reach("call:" + kind + ":before")
	if late {
		ctx = context.WithoutCancel(ctx)
	}
	made, err := do(ctx)
	if late {
		w.say(fmt.Sprintf("late %s %v", kind, err))
	}
	if w.reach("call:" + kind + ":after") {
		w.say("late answer of " + kind)
	}
	return made, err
}

func (s *stopping) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	if s.w.refuses("permanently") {
		return provider.Instance{}, provider.Permanent(errors.New("refused on purpose"))
	}
	i, err := call(ctx, s.w, "create", func(ctx context.Context) (provider.Instance, error) {
		return s.inner.Create(ctx, req)
	})
	if err == nil && s.w.refuses("create") {
		return provider.Instance{}, errors.New("failed on purpose, half made")
	}
	return i, err
}

func (s *stopping) Delete(ctx context.Context, ref provider.Ref) error {
	if s.w.refuses("delete") {
		return errors.New("failed on purpose")
	}
	_, err := call(ctx, s.w, "delete", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Delete(ctx, ref)
	})
	return err
}

func (s *stopping) Stop(ctx context.Context, ref provider.Ref) error {
	return s.power(ctx, "stop", func(ctx context.Context, p provider.Stopper) error { return p.Stop(ctx, ref) })
}

func (s *stopping) Start(ctx context.Context, ref provider.Ref) error {
	return s.power(ctx, "start", func(ctx context.Context, p provider.Stopper) error { return p.Start(ctx, ref) })
}

func (s *stopping) power(ctx context.Context, kind string, do func(context.Context, provider.Stopper) error) error {
	p, ok := provider.As[provider.Stopper](s.inner)
	if !ok {
		return errors.New("the provider cannot")
	}
	_, err := call(ctx, s.w, kind, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx, p) })
	return err
}

func (s *stopping) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	return call(ctx, s.w, "ready", func(ctx context.Context) (provider.Readiness, error) { return s.inner.Ready(ctx, ref) })
}

func (s *stopping) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	return call(ctx, s.w, "get", func(ctx context.Context) (provider.Instance, error) { return s.inner.Get(ctx, ref) })
}

func (s *stopping) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	return s.inner.List(ctx, installation)
}

func (s *stopping) Validate(spec json.RawMessage, parameters map[string]string) []provider.Problem {
	return s.inner.Validate(spec, parameters)
}
