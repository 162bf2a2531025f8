package agent_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// forgeSide is what the server says of runners: answers in turn, the last one for ever.
type forgeSide struct {
	http.Handler
	mu      sync.Mutex
	answers []int
	asked   int
	reports []sdk.RunnerReport
}

func (f *forgeSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/v1/instance/runner-configuration":
		f.mu.Lock()
		status := f.answers[min(f.asked, len(f.answers)-1)]
		f.asked++
		f.mu.Unlock()
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(sdk.RunnerConfiguration{
			Name: "w", Kind: "github", URL: "https://github.example/acme", JITConfig: "very secret", Labels: []string{"linux", "x64"},
			Group: "default", Ephemeral: true,
		})
	case "/api/v1/instance/runner":
		var report sdk.RunnerReport
		_ = json.NewDecoder(r.Body).Decode(&report)
		f.mu.Lock()
		f.reports = append(f.reports, report)
		f.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		f.Handler.ServeHTTP(w, r)
	}
}

func (f *forgeSide) said() []sdk.RunnerReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sdk.RunnerReport(nil), f.reports...)
}

func withForge(t *testing.T, config sdk.AgentConfig, answers ...int) (*server, *forgeSide) {
	t.Helper()
	s := newServer(t, config)
	f := &forgeSide{Handler: s.Config.Handler, answers: answers}
	s.Config.Handler = f
	return s, f
}

// The runner gets its configuration in files that only their owner may read, and nothing of it anywhere else; a server that
// can't say yet is asked again; and the runner's end is told, with its files gone.
func TestRunner(t *testing.T) {
	t.Parallel()
	s, f := withForge(t, sdk.AgentConfig{
		HeartbeatTimeoutS: 60, OnStart: []string{"sh", "-c", "cat $PREWARM_FORGE_CA_FILE > $PREWARM_RUNNER_DIR/authorities"},
		Runner: []string{"sh", "-c", `
			env > $PREWARM_RUNNER_DIR/environment
			cat "$PREWARM_RUNNER_JITCONFIG_FILE" > $PREWARM_RUNNER_DIR/jit
			stat -c %a "$PREWARM_RUNNER_JITCONFIG_FILE" "$PREWARM_RUNNER_CONFIG_FILE" > $PREWARM_RUNNER_DIR/modes
			while ! test -e $PREWARM_RUNNER_DIR/end; do sleep 0.05; done; exit 3`},
	}, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusOK)
	s.metadata.ForgeCABundle = "one\ntwo\n"
	out := t.TempDir()
	o := options(t, s)
	o.Env = append(o.Env, "PREWARM_RUNNER_DIR="+out)
	start(t, o)
	s.awaitReport(t, is(sdk.AgentReady))
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(out, "modes"))
		return err == nil && len(read(t, filepath.Join(out, "modes"))) > 4
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, "one\ntwo", read(t, filepath.Join(out, "authorities")), "on_start has them too")
	require.Equal(t, "very secret", read(t, filepath.Join(out, "jit")))
	require.Equal(t, "600\n600", read(t, filepath.Join(out, "modes")))
	environment := read(t, filepath.Join(out, "environment"))
	require.Contains(t, environment, "PREWARM_RUNNER_LABELS=linux,x64\n")
	require.Contains(t, environment, "PREWARM_RUNNER_URL=https://github.example/acme")
	require.NotContains(t, environment, "very secret")
	require.NotContains(t, environment, "PREWARM_RUNNER_TOKEN_FILE")
	require.Contains(t, environment, "PREWARM_FORGE_CA_FILE="+filepath.Join(o.Dir, "forge-ca.pem"))
	require.Empty(t, f.said())

	require.NoError(t, os.WriteFile(filepath.Join(out, "end"), nil, 0o600))
	require.Eventually(t, func() bool { return len(f.said()) == 1 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, sdk.RunnerReport{Status: "finished", Message: "the runner ended with exit status 3"}, f.said()[0])
	for _, name := range []string{"runner.json", "runner.jitconfig"} {
		require.NoFileExists(t, filepath.Join(o.Dir, name))
	}
}

// A configuration that was read before is the end of the workspace; one that there is none of is no trouble.
func TestRunnerWithoutConfiguration(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]sdk.AgentStatus{
		http.StatusConflict: sdk.AgentUnhealthy, http.StatusNotFound: sdk.AgentReady,
	} {
		s, f := withForge(t, sdk.AgentConfig{HeartbeatTimeoutS: 60, Runner: []string{"touch", "ran"}}, status)
		o := options(t, s)
		start(t, o)
		report := s.awaitReport(t, func(r sdk.AgentReport) bool { return r.Status != sdk.AgentStarting })
		require.Equal(t, want, report.Status, "%d: %s", status, report.Message)
		if want == sdk.AgentUnhealthy {
			require.True(t, strings.HasPrefix(report.Message, "read configuration of runner"), report.Message)
		}
		f.mu.Lock()
		require.Equal(t, 1, f.asked)
		f.mu.Unlock()
	}
}

// An agent that starts again has a runner already, and asks for no other.
func TestRunnerOfTheAgentBefore(t *testing.T) {
	t.Parallel()
	s, f := withForge(t, sdk.AgentConfig{HeartbeatTimeoutS: 60, Runner: []string{"false"}}, http.StatusConflict)
	o := options(t, s)
	require.NoError(t, os.MkdirAll(o.Dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "runner.begun"), []byte("1"), 0o600))
	start(t, o)
	s.awaitReport(t, is(sdk.AgentReady))
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Zero(t, f.asked)
}
