package forgetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
)

// TestCommand: the runner as a program does its job and ends well; one that is killed at its job is noticed.
func TestCommand(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "runner")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./runner").CombinedOutput()
	require.NoError(t, err, string(out))
	w := start(t, "github", forge.Organization, forgetest.Options{})
	command := func(name string) *exec.Cmd {
		r, err := w.client.Register(t.Context(), forge.NewRunner{Name: name, Labels: []string{name}})
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(r.JITConfig), 0o600))
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), "PREWARM_RUNNER_JITCONFIG_FILE="+file)
		require.NoError(t, cmd.Start())
		return cmd
	}
	well, killed := command("well"), command("killed")
	w.Queue(forgetest.Work{Labels: []string{"well"}}, forgetest.Work{Labels: []string{"killed"}, For: time.Hour})
	require.NoError(t, well.Wait())
	eventually(t, func() bool { return w.Records()[1].State == forge.InProgress }, "the other is at its job")
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	eventually(t, func() bool { return w.Records()[1].State == forge.Completed }, "its job ends")
	assert.Equal(t, []string{"killed"}, w.Judge().KilledBusy)
	assert.Equal(t, "failure", w.Records()[1].Conclusion)
	assert.Equal(t, "success", w.Records()[0].Conclusion)
}
