package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd"
)

var update = flag.Bool("update", false, "write the golden files anew")

// patience is a time that only a hang exceeds.
const patience = time.Minute

// now is the time of all tests; the canned answers are around it.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fakeServer answers each "METHOD /path" with a canned text, and remembers what it was asked.
type fakeServer struct {
	*httptest.Server
	mu       sync.Mutex
	answers  map[string]answer
	requests []string
}

type answer struct {
	status int
	body   string
	handle http.HandlerFunc // instead of status and body
}

func newFakeServer(t *testing.T, answers map[string]answer) *fakeServer {
	t.Helper()
	s := &fakeServer{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := []byte{}
	if r.Header.Get("Upgrade") == "" {
		body, _ = io.ReadAll(r.Body)
	}
	s.mu.Lock()
	path := strings.TrimPrefix(r.URL.RequestURI(), "/api/v1")
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+path+" "+string(body)))
	route, _, _ := strings.Cut(path, "?")
	a, ok := s.answers[r.Method+" "+route]
	s.mu.Unlock()
	switch {
	case !ok:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"title":"Not Found","detail":"there is no %s"}`, route)
	case a.handle != nil:
		a.handle(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		if a.status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(max(a.status, http.StatusOK))
		_, _ = io.WriteString(w, a.body)
	}
}

// asked returns the requests so far.
func (s *fakeServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// answer changes a canned answer.
func (s *fakeServer) answer(route string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[route] = a
}

// shell is where a test runs prewarm: an empty home, and a server that PREWARM_URL names.
type shell struct {
	t     *testing.T
	env   []string
	stdin io.Reader
	clock *quartz.Mock
	serve func(context.Context, coderd.Options) error
}

func newShell(t *testing.T, url string) *shell {
	t.Helper()
	clock := quartz.NewMock(t)
	clock.Set(now)
	return &shell{
		t:     t,
		env:   []string{"PREWARM_URL=" + url, "PREWARM_TOKEN=pw_test", "HOME=" + t.TempDir()},
		stdin: strings.NewReader(""),
		clock: clock,
		serve: func(context.Context, coderd.Options) error { t.Error("a server was started"); return nil },
	}
}

// app is a run of prewarm before it begins, with its output going to the buffers.
func (s *shell) app(stdout, stderr io.Writer) *app {
	a := newApp(s.env, s.stdin, stdout, stderr)
	a.clock = s.clock
	a.serve = s.serve
	a.giveUpFor, a.completionTimeout = patience, patience
	return a
}

type outcome struct {
	status         int
	stdout, stderr string
}

func (s *shell) run(args ...string) outcome {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	status := s.app(&stdout, &stderr).run(ctx, args)
	return outcome{status, stdout.String(), stderr.String()}
}

func (o outcome) String() string {
	return fmt.Sprintf("exit status %d\n--- stdout\n%s--- stderr\n%s", o.status, o.stdout, o.stderr)
}

// golden compares text with a file, or with -update writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make it with: go test ./cmd/prewarm -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s has\n%s\nbut it is\n%s\n(if that is right: go test ./cmd/prewarm -update)", path, want, got)
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
