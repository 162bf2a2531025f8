package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/agent"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// server is the instance API as an agent sees it.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	metadata sdk.InstanceMetadata
	token    string // that is good
	renew    string // is sent with the next receipt
	reports  []sdk.AgentReport
	refused  int
	changed  chan struct{}
}

func newServer(t *testing.T, config sdk.AgentConfig) *server {
	t.Helper()
	s := &server{token: "one", changed: make(chan struct{}, 1), metadata: sdk.InstanceMetadata{
		WorkspaceID: uuid.New(), Name: "w", Template: "t", Preset: "p", Incarnation: 1, Agent: config,
		Parameters: map[string]string{"size": "small"},
	}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	good := r.Header.Get("Authorization") == "Bearer "+s.token
	if !good {
		s.refused++
	}
	s.mu.Unlock()
	if !good {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/api/v1/instance/metadata":
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.metadata)
	case "/api/v1/instance/status":
		var report sdk.AgentReport
		_ = json.NewDecoder(r.Body).Decode(&report)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reports = append(s.reports, report)
		receipt := sdk.AgentReceipt{Token: s.renew}
		if s.renew != "" {
			s.token, s.renew = s.renew, ""
		}
		_ = json.NewEncoder(w).Encode(receipt)
	case "/api/v1/instance/tunnel":
		w.WriteHeader(http.StatusNotFound) // a server of before
	case "/api/v1/instance/events":
		for {
			s.mu.Lock()
			claim := s.metadata.Claim
			s.mu.Unlock()
			if claim != nil && claim.ClaimID.String() != r.URL.Query().Get("known") {
				_ = json.NewEncoder(w).Encode(sdk.InstanceEvents{State: "claimed", Claim: claim})
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-s.changed:
			}
		}
	}
}

func (s *server) claim(claim *sdk.InstanceClaim) {
	s.mu.Lock()
	s.metadata.Claim = claim
	s.mu.Unlock()
	s.changed <- struct{}{}
}

// awaitReport waits for one that is as wanted.
func (s *server) awaitReport(t *testing.T, want func(sdk.AgentReport) bool) sdk.AgentReport {
	t.Helper()
	var found sdk.AgentReport
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.reports {
			if want(r) {
				found = r
				return true
			}
		}
		return false
	}, time.Minute, 10*time.Millisecond)
	return found
}

func is(status sdk.AgentStatus) func(sdk.AgentReport) bool {
	return func(r sdk.AgentReport) bool { return r.Status == status }
}

// options of an agent in a directory of its own.
func options(t *testing.T, s *server, command ...string) agent.Options {
	t.Helper()
	dir := t.TempDir()
	tokenFile := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(tokenFile, []byte("one\n"), 0o600))
	return agent.Options{
		URL: s.URL, TokenFile: tokenFile, Dir: filepath.Join(dir, "agent"), Command: command,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HERE=" + dir}, Stdout: &strings.Builder{}, Stderr: &strings.Builder{},
		Clock: quartz.NewReal(), Log: slog.Make(), Grace: time.Minute, LastWords: time.Minute, // which only a hang exceeds
	}
}

// start runs an agent until the test, or stop, ends it; ended is its exit status.
func start(t *testing.T, o agent.Options) (stop func(), ended chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, err := agent.Run(ctx, o)
		if err != nil {
			t.Errorf("run agent: %v", err)
		}
		ended <- status
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop, ended
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.TrimSpace(string(content))
}

// The agent ends with its command, by its status, having told so.
func TestCommandEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t, sdk.AgentConfig{})
	_, ended := start(t, options(t, s, "sh", "-c", "exit 7"))
	require.Equal(t, 7, <-ended)
	require.Equal(t, "the command ended with exit status 7", s.awaitReport(t, is(sdk.AgentUnhealthy)).Message)
}

// alive says whether there is such a process that is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// What the agent started ends with it: asked first, and made to where it does not listen. So do its children.
func TestChildrenEnd(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"willing":   `trap 'echo bye > $HERE/bye; exit 3' TERM; echo $$ > $HERE/pid; while :; do sleep 0.05; done`,
		"unwilling": `trap '' TERM; (trap '' TERM; echo $$ > $HERE/pid; sleep 300) & while :; do sleep 1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, sdk.AgentConfig{})
			o := options(t, s, "sh", "-c", command)
			if name == "unwilling" {
				o.Grace = time.Second
			}
			stop, ended := start(t, o)
			here := filepath.Dir(o.Dir)
			s.awaitReport(t, is(sdk.AgentReady))
			require.Eventually(t, func() bool {
				content, err := os.ReadFile(filepath.Join(here, "pid"))
				return err == nil && len(content) > 1
			}, time.Minute, 10*time.Millisecond)
			pid, err := strconv.Atoi(read(t, filepath.Join(here, "pid")))
			require.NoError(t, err)
			stop()
			status := <-ended
			if name == "willing" {
				require.Equal(t, 3, status)
				require.Equal(t, "bye", read(t, filepath.Join(here, "bye")))
			} else {
				require.Equal(t, 128+int(syscall.SIGKILL), status)
			}
			require.Eventually(t, func() bool { return !alive(pid) }, time.Minute, 10*time.Millisecond)
		})
	}
}

// on_claim runs once for a claim, told all by files and environment; another agent process does not run it again.
func TestOnClaimRunsOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t, sdk.AgentConfig{
		OnStart: []string{"sh", "-c", "echo $PARAM_SIZE $PREWARM_PRESET >> $HERE/started"},
		OnClaim: []string{"sh", "-c", `echo "$PREWARM_OWNER $PARAM_SIZE $PARAM_A_KEY" >> $HERE/claimed; . "$PREWARM_CLAIM_ENV"; ` +
			`echo "$PREWARM_CLAIM_ID" >> $HERE/claimed; test -f "$PREWARM_CLAIM_FILE"`},
	})
	o := options(t, s)
	stop, _ := start(t, o)
	s.awaitReport(t, is(sdk.AgentReady))
	claim := &sdk.InstanceClaim{
		ClaimID: uuid.New(), OwnerID: uuid.New(), Owner: "alice", ClaimedAt: time.Unix(0, 0),
		Parameters: map[string]string{"size": "small", "a-key": "it's $secret"},
	}
	s.claim(claim)
	require.Equal(t, claim.ClaimID, *s.awaitReport(t, is(sdk.AgentClaimReady)).ClaimID)
	here := filepath.Dir(o.Dir)
	want := "alice small it's $secret\n" + claim.ClaimID.String()
	require.Equal(t, want, read(t, filepath.Join(here, "claimed")))
	require.Equal(t, "small p", read(t, filepath.Join(here, "started")))
	info, err := os.Stat(filepath.Join(o.Dir, "claim.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	stop()

	s.mu.Lock()
	s.reports = nil
	s.mu.Unlock()
	start(t, o)
	s.awaitReport(t, is(sdk.AgentClaimReady))
	require.Equal(t, want, read(t, filepath.Join(here, "claimed")), "it ran once")
}

// on_start that fails is told with the end of what it wrote, and heartbeats go on saying so.
func TestOnStartFails(t *testing.T) {
	t.Parallel()
	s := newServer(t, sdk.AgentConfig{OnStart: []string{"sh", "-c", "echo no space >&2; exit 4"}})
	start(t, options(t, s))
	require.Equal(t, "on_start ended with exit status 4; its last output:\nno space",
		s.awaitReport(t, is(sdk.AgentUnhealthy)).Message)
	s = newServer(t, sdk.AgentConfig{OnStart: []string{"/no/such/program"}})
	start(t, options(t, s))
	require.Contains(t, s.awaitReport(t, is(sdk.AgentUnhealthy)).Message, "on_start could not be started")
}

// A token that the server sends is used from then on, and kept; one that is refused is read anew from its file.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := newServer(t, sdk.AgentConfig{})
	s.renew = "two"
	o := options(t, s)
	start(t, o)
	s.awaitReport(t, is(sdk.AgentReady))
	// The token comes with the answer to a report, perhaps to this one: it is kept a moment after the report was heard.
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(o.TokenFile)
		return err == nil && string(content) == "two\n"
	}, time.Minute, 10*time.Millisecond)

	s.mu.Lock()
	s.token, s.reports, s.refused = "three", nil, 0
	s.mu.Unlock()
	s.CloseClientConnections()
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.refused > 0 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(o.TokenFile, []byte("three\n"), 0o600))
	s.claim(&sdk.InstanceClaim{ClaimID: uuid.New(), Owner: "bob", ClaimedAt: time.Unix(0, 0)})
	s.awaitReport(t, is(sdk.AgentClaimReady))
}

// Heartbeats keep their pace by the clock: not before four fifths of it, and by six fifths.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	s := newServer(t, sdk.AgentConfig{HeartbeatTimeoutS: 60})
	o := options(t, s)
	clock := quartz.NewMock(t)
	o.Clock = clock
	trap := clock.Trap().NewTimer("agent", "report")
	defer trap.Close()
	start(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 5 { // the change to ready may come before or after the first report
		call := trap.MustWait(ctx)
		require.GreaterOrEqual(t, call.Duration, 8*time.Second)
		require.LessOrEqual(t, call.Duration, 12*time.Second)
		s.mu.Lock() // before it goes on: what it reports then, at a change, would count as told, and stop the timer
		told := len(s.reports)
		last := s.reports[told-1]
		s.mu.Unlock()
		call.MustRelease(ctx)
		if last.Status == sdk.AgentReady {
			clock.Advance(call.Duration).MustWait(ctx)
			require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.reports) > told }, time.Minute, time.Millisecond)
			return
		}
	}
	require.Fail(t, "it is never ready")
}

// lines counts what is logged, by level and call.
type lines struct {
	mu    sync.Mutex
	count map[string]int
}

func (l *lines) LogEntry(_ context.Context, e slog.SinkEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range e.Fields {
		if f.Name == "call" {
			l.count[fmt.Sprintf("%s %v", e.Level, f.Value)]++
		}
	}
}

func (*lines) Sync() {}

func (l *lines) of(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[what]
}

// An agent that is refused again and again, as that of a workspace is whose runner is at a job while it drains, says so once.
func TestRefusedQuietly(t *testing.T) {
	t.Parallel()
	s := newServer(t, sdk.AgentConfig{HeartbeatTimeoutS: 1})
	log := &lines{count: map[string]int{}}
	o := options(t, s)
	o.Log = slog.Make(log).Leveled(slog.LevelDebug)
	start(t, o)
	s.awaitReport(t, is(sdk.AgentReady))
	s.mu.Lock()
	s.token = "another"
	s.mu.Unlock()
	require.Eventually(t, func() bool { return log.of("DEBUG report") > 1 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 1, log.of("WARN report"))
}
