package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/coder/quartz"
	"github.com/coder/websocket"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// forwarding is a port-forward that runs.
type forwarding struct {
	*fakeServer
	clock  *quartz.Mock
	ports  []string // here
	stderr *lines
	stop   func()
	ended  chan int
}

// lines is a buffer for output that others write at the same time.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		select {
		case l.more <- struct{}{}:
		default:
		}
	}()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for a text that matches.
func (l *lines) await(t *testing.T, pattern string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(l.String()); found != nil {
			return found
		}
		select {
		case <-l.more:
		case <-ctx.Done():
			t.Fatalf("no %q in %q", pattern, l.String())
		}
	}
}

// forward forwards ports of a workspace where 1 answers what it read, 2 is refused, 3 is reset, and 4 ends with the claim.
func forward(t *testing.T, args ...string) *forwarding {
	t.Helper()
	all, at := answers(t), "GET /workspaces/"+testWorkspace.Name+"/ports/"
	stream := func(serve func(*sdk.Stream)) answer {
		return answer{handle: func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			s := sdk.NewStream(context.WithoutCancel(r.Context()), quartz.NewReal(), ws)
			defer s.Cut()
			serve(s)
		}}
	}
	all[at+"1/connect"] = stream(func(s *sdk.Stream) {
		read, _ := io.ReadAll(s)
		_, _ = s.Write(read)
		_ = s.CloseWrite()
		s.CloseWith(websocket.StatusNormalClosure, "")
	})
	all[at+"2/connect"] = answer{status: http.StatusBadGateway, body: `{"detail":"nothing listens on port 2 of the workspace"}`}
	all[at+"3/connect"] = stream(func(s *sdk.Stream) { s.CloseWith(websocket.StatusBadGateway, "port 3: the connection was reset") })
	all[at+"4/connect"] = stream(func(s *sdk.Stream) { s.CloseWith(sdk.StatusClaimEnded, "workspace x") })
	f := &forwarding{fakeServer: newFakeServer(t, all), stderr: &lines{more: make(chan struct{}, 1)}, ended: make(chan int, 1)}
	sh := newShell(t, f.URL)
	f.clock = sh.clock
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	t.Cleanup(stop)
	stdout := &lines{more: make(chan struct{}, 1)}
	trap := f.clock.Trap().TickerFunc("port-forward")
	defer trap.Close()
	go func() {
		f.ended <- sh.app(stdout, f.stderr).run(ctx, append([]string{"port-forward", testWorkspace.Name}, args...))
	}()
	trap.MustWait(t.Context()).MustRelease(t.Context()) // it listens on all by then
	for line := range strings.Lines(stdout.String()) {
		found := regexp.MustCompile(`^Forwarding (127\.0\.0\.1:\d+) to ` + testWorkspace.Name + ` port \d+\n$`).FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("printed %q", line)
		}
		f.ports = append(f.ports, found[1])
	}
	return f
}

// send connects to a port here, and returns what comes back. What is reset at once may fail to connect already.
func (f *forwarding) send(port int, text string) (string, error) {
	conn, err := net.Dial("tcp", f.ports[port])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(conn)
	return string(got), err
}

// Each connection is one of its own, with an end of each way. One that fails is reported and reset, and the others go on. An
// interrupt ends it well.
func TestPortForward(t *testing.T) {
	t.Parallel()
	f := forward(t, "0:1", "0:2", "0:3")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			want := strings.Repeat(fmt.Sprint(i), 100_000)
			if got, err := f.send(0, want); err != nil || got != want {
				t.Errorf("%d bytes of %d: %v", len(got), len(want), err)
			}
		})
	}
	all.Wait()
	for port, want := range map[int]string{1: "nothing listens on port 2 of the workspace\n", 2: "port 3: the connection was reset\n"} {
		if got, err := f.send(port, "x"); err == nil {
			t.Errorf("port %d ended well, with %q", port, got)
		}
		f.stderr.await(t, want)
	}
	if got, err := f.send(0, "still there"); err != nil || got != "still there" {
		t.Errorf("%q, %v", got, err)
	}
	f.stop()
	if status := <-f.ended; status != 0 {
		t.Errorf("ended with %d: %s", status, f.stderr)
	}
}

// It ends with the claim: by a connection that finds out, or, where there is none, by a look.
func TestPortForward_claimEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*forwarding){
		"by a connection": func(f *forwarding) { _, _ = f.send(0, "x") },
		"by a look": func(f *forwarding) {
			released := testWorkspace
			released.State = "draining"
			f.answer("GET /workspaces/"+testWorkspace.Name, answer{body: mustJSON(t, released)})
			f.clock.Advance(claimCheck).MustWait(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forward(t, "0:4")
			end(f)
			if status := <-f.ended; status != 1 || !strings.Contains(f.stderr.String(), "the claim of workspace "+testWorkspace.Name+" has ended") {
				t.Errorf("ended with %d: %s", status, f.stderr)
			}
		})
	}
}

// A port of this machine that is taken is named, and another one is asked for.
func TestPortForward_taken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	got := newShell(t, newFakeServer(t, answers(t)).URL).run("port-forward", testWorkspace.Name, port+":3000")
	if got.status != 1 || !strings.Contains(got.stderr, port) || !strings.Contains(got.stderr, "choose another port of this machine: LOCAL:3000") {
		t.Error(got)
	}
}
