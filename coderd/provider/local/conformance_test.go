package local_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/local"
	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
)

// newRoot is a root that must have no process and nothing but its own files when the test ends.
func newRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	t.Cleanup(func() {
		// An exec'd supervisor may be on its way out when its lock is free already.
		require.Eventually(t, func() bool { return len(processesOf(root)) == 0 }, deadline, 10*time.Millisecond,
			"processes are left: %v", processesOf(root))
	})
	return root
}

func open(t *testing.T, root string) *local.Provider {
	t.Helper()
	p, err := local.New(local.Options{Root: root})
	require.NoError(t, err)
	return p
}

// processesOf finds the processes, zombies apart, that have the root in their arguments, environment, or as their
// working directory.
func processesOf(root string) []string {
	var found []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || e.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		cwd, _ := os.Readlink("/proc/" + e.Name() + "/cwd")
		if strings.Contains(string(args)+string(env)+cwd, root+"/") && !strings.Contains(string(args), "helper-process") {
			found = append(found, e.Name()+": "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

func TestConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		root := newRoot(t)
		return providertest.Harness{
			Provider:   open(t, root),
			Other:      open(t, root),
			Parameters: map[string]string{"size": "small"},
			Spec: json.RawMessage(`{
				"setup": ["sh", "-c", "echo preparing; touch prepared"],
				"command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
				"readiness": {"file": "prepared"}, "port": true}`),
			Garbage: map[string]json.RawMessage{
				"command":          json.RawMessage(`{"port": true}`),
				"command[1]":       json.RawMessage(`{"command": ["sleep", 3600]}`),
				"setup":            json.RawMessage(`{"command": ["true"], "setup": "make"}`),
				"readiness":        json.RawMessage(`{"command": ["true"], "readiness": {"tcp": 80, "file": "x"}}`),
				"readiness.tcp":    json.RawMessage(`{"command": ["true"], "readiness": {"tcp": "$PORT"}}`),
				"readiness.file":   json.RawMessage(`{"command": ["true"], "readiness": {"file": "../../x"}}`),
				"readiness.setup":  json.RawMessage(`{"command": ["true"], "readiness": {"setup": true}}`),
				"readiness.http":   json.RawMessage(`{"command": ["true"], "readiness": {"http": "/"}}`),
				"environment.A":    json.RawMessage(`{"command": ["true"], "environment": {"A": 1}}`),
				"environment.PORT": json.RawMessage(`{"command": ["true"], "port": true, "environment": {"PORT": "1"}}`),
				"environment.A=B":  json.RawMessage(`{"command": ["true"], "environment": {"A=B": ""}}`),
				"port":             json.RawMessage(`{"command": ["true"], "port": 8080}`),
				"stop_grace":       json.RawMessage(`{"command": ["true"], "stop_grace": "an hour"}`),
				"surprise":         json.RawMessage(`{"command": ["true"], "surprise": 1}`),
				"environment.PREWARM_DIR": json.RawMessage(
					`{"command": ["true"], "environment": {"PREWARM_DIR": "/"}}`),
			},
		}
	})
}
