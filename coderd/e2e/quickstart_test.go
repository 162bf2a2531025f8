package e2e_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/programtest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// The quickstart works in one command, as root and as an ordinary user: it brings its database, the pool gets warm, and a
// claim is a hit whose command runs in a directory that is the workspace's alone, never as root.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	run := func(t *testing.T, user *syscall.Credential) string {
		t.Helper()
		dir := filepath.Join(e2etest.Public(t), "data")
		require.NoError(t, os.Mkdir(dir, 0o755))
		options := e2etest.Options{DataDir: dir, Args: []string{"--quickstart", "--log-level", "debug"}, User: user}
		if user != nil {
			require.NoError(t, os.Chown(dir, int(user.Uid), int(user.Gid)))
			options.Env = []string{"HOME=" + dir}
			// Its folder is for whoever built it.
			options.Binary = filepath.Join(filepath.Dir(dir), "prewarm")
			program, err := os.ReadFile(e2etest.Binary(t))
			require.NoError(t, err)
			programtest.Write(t, options.Binary, program, 0o755)
		}
		server := e2etest.Start(t, options)
		left, err := os.ReadFile(filepath.Join(dir, "server-url")) // by which commands find it
		require.NoError(t, err)
		require.Equal(t, server.Client.URL.String()+"\n", string(left))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only what hangs takes so long
		defer cancel()
		eventually(t, "a warm pool", func() bool { return preset(ctx, t, server.Client, "quickstart").Eligible == 3 })
		claim, err := server.Client.Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require"})
		require.NoError(t, err)
		require.Equal(t, "hit", claim.Outcome)
		var out bytes.Buffer
		status, err := server.Client.Exec(ctx, claim.Name, sdk.ExecRequest{
			ExecStart: sdk.ExecStart{Command: []string{"sh", "-c", "cat project/README; stat -c '%u %a' .; id -u"}}, Stdout: &out, Stderr: &out,
		})
		require.NoError(t, err)
		require.Zero(t, status, out.String())
		lines := strings.Split(out.String(), "\n")
		require.Equal(t, "You were expected.", lines[0])
		require.Equal(t, lines[2]+" 700", lines[1], "its directory is its own")
		_, err = server.Client.ReleaseWorkspace(ctx, claim.Name)
		require.NoError(t, err)
		require.NoError(t, server.Client.DeleteTemplate(ctx, "quickstart")) // workspaces of `local` outlive their server
		eventually(t, "nothing is left", func() bool {
			left, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{})
			return err == nil && len(left.Workspaces) == 0
		})
		require.Zero(t, server.Stop(), server.Log())
		require.NoFileExists(t, filepath.Join(dir, "server-url"))
		for line, field := range map[string]string{ // C3: what was decided and done, by the log
			"decided": "desired=3", "workspace created": "preset=quickstart/default", "workspace deleted": "took=",
			"victim chosen": "workspace=prebuild-", "loop ended": "the replica was asked to stop",
		} {
			require.Contains(t, server.LogAround(line), field, line)
		}
		return lines[2]
	}
	me := strconv.Itoa(os.Geteuid())
	t.Run("as whoever runs the tests", func(t *testing.T) {
		t.Parallel()
		uid := run(t, nil)
		require.Equal(t, me == "0", uid != me, "root's have a user of their own, others' are theirs")
	})
	if me == "0" {
		t.Run("as an ordinary user", func(t *testing.T) {
			t.Parallel()
			require.Equal(t, strconv.Itoa(nobody), run(t, &syscall.Credential{Uid: nobody, Gid: nobody}))
		})
	}
}
