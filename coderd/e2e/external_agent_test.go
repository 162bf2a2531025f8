package e2e_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const externalAgent = `
providers:
  - name: cloud
    kind: external
    config: {executable: %q, config_file: %q}
templates:
  - name: vms
    provider: cloud
    boot_timeout: 3m
    agent:
      on_start: [sh, -c, "echo started in $PREWARM_WORKSPACE > started"]
      on_claim: [sh, -c, 'echo "$PREWARM_OWNER $PARAM_KEY" > claimed']
    spec: {image: ubuntu, flavor: small}
    presets: [{name: default, prebuilds: {instances: 1}}]
`

// An instance of an external provider, whose executable knows nothing of Prewarm, installs the agent at its first boot:
// it downloads the binary from the server over a connection that a private authority vouches for, reports, and gets its
// claim. Nobody who looks at processes ever sees a token.
func TestExternalAgent(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	executable, config := filepath.Join(dir, "provider"), filepath.Join(dir, "config.json")
	require.NoError(t, externaltest.Build(executable))
	cloud := filepath.Join(dir, "cloud")
	require.NoError(t, externaltest.Config{Root: cloud, Boots: true}.Write(config))

	listen := freeListen(t)
	proxy := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: listen}))
	t.Cleanup(proxy.Close)
	authority := filepath.Join(dir, "authority.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw,
	}), 0o600))
	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: dbtest.URL(t), Listen: listen, Tick: 300 * time.Millisecond,
		Args: []string{"--access-url", proxy.URL, "--access-ca-file", authority},
	})
	watched := watchProcesses(t)
	_, err := server.Client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(externalAgent, executable, config)})
	require.NoError(t, err)
	t.Cleanup(func() { // instances outlive the server
		machines, _ := filepath.Glob(filepath.Join(cloud, "machines", "*"))
		for _, home := range machines {
			endSession(home)
		}
	})

	eventually(t, "the agent reports that it is ready", func() bool {
		list, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
		return err == nil && len(list.Workspaces) == 1
	})
	claim, err := server.Client.Claim(ctx, sdk.ClaimRequest{
		Template: "vms", Preset: "default", Mode: "require", Parameters: map[string]string{"key": "late"},
	})
	require.NoError(t, err)
	homes, err := filepath.Glob(filepath.Join(cloud, "machines", claim.Name+"-*"))
	require.NoError(t, err)
	require.Len(t, homes, 1)
	require.Equal(t, "started in "+claim.Name+"\n", content(t, homes[0], "started"))
	eventually(t, "on_claim has run", func() bool {
		shown, err := server.Client.Workspace(ctx, claim.Name)
		return err == nil && shown.Agent.Status == "claim-ready"
	})
	require.Equal(t, "owner late\n", content(t, homes[0], "claimed"))

	tokens := tokensOf(t, cloud)
	require.NotEmpty(t, tokens)
	seen := watched()
	require.Contains(t, seen, "prewarm\x00agent", "the watch sees what runs")
	for _, token := range tokens {
		require.NotContains(t, seen, token, "a token is in an argument or in the environment of a process")
		require.NotContains(t, server.Log(), token)
	}
	require.NoError(t, filepath.WalkDir(homes[0], func(path string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // the agent is alive, and what it writes beside comes and goes
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		for _, token := range tokens {
			if bytes.Contains(raw, []byte(token)) {
				require.Zero(t, info.Mode().Perm()&0o077, "%s holds a token, and others may read it", path)
			}
		}
		return err
	}))

	_, err = server.Client.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	eventually(t, "the machine of the released one is gone", func() bool {
		_, err := os.Stat(homes[0])
		return os.IsNotExist(err)
	})
}

// tokensOf are those that the executable was handed.
func tokensOf(t *testing.T, cloud string) []string {
	t.Helper()
	var tokens []string
	for line := range strings.Lines(content(t, cloud, "calls")) {
		var call externaltest.Call
		require.NoError(t, json.Unmarshal([]byte(line), &call))
		var stdin struct {
			Token string `json:"instance-token"`
		}
		if call.Stdin != nil {
			require.NoError(t, json.Unmarshal(call.Stdin, &stdin))
			require.NotEmpty(t, stdin.Token)
			tokens = append(tokens, stdin.Token)
		}
	}
	return tokens
}

// watchProcesses looks at the arguments and the environment of all processes, again and again, and returns what it saw.
func watchProcesses(t *testing.T) (seen func() string) {
	t.Helper()
	stop, all := make(chan struct{}), map[string]bool{}
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(25 * time.Millisecond)
		defer ticker.Stop()
		for {
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			environments, _ := filepath.Glob("/proc/[0-9]*/environ")
			for _, path := range slices.Concat(files, environments) {
				if raw, err := os.ReadFile(path); err == nil {
					all[string(raw)] = true
				}
			}
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	})
	end := sync.OnceFunc(func() { close(stop); watching.Wait() })
	t.Cleanup(end)
	return func() string {
		end()
		var b strings.Builder
		for text := range all {
			b.WriteString(text + "\n")
		}
		return b.String()
	}
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(raw)
}

func freeListen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// endSession kills what runs in a machine of the reference cloud.
func endSession(home string) {
	session, err := os.ReadFile(filepath.Join(home, "session"))
	if err != nil {
		return
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && fields[3] == string(session) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
