package recordtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each run adds a line; the version says whether anything but the table had changed.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "docs", "record.md")
	require.NoError(t, os.MkdirAll(filepath.Dir(table), 0o755))
	require.NoError(t, os.WriteFile(table, []byte("| date |\n| --- |\n"), 0o600))
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "first")
	commit := git("rev-parse", "--short=12", "HEAD")[:12]
	t.Setenv(Env, table)

	run := func(change func(r *Run)) {
		t.Run("run", func(t *testing.T) {
			r := &Run{Command: "make chaos SEED=7"}
			Keep(t, r)
			change(r)
		})
	}
	run(func(r *Run) { r.Length, r.Faults, r.Claims = "10 min", 170, 3736 })
	run(func(*Run) {})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
	run(func(r *Run) { r.Length, r.Violations = "1 min", 2 })

	got, err := os.ReadFile(table)
	require.NoError(t, err)
	require.Regexp(t, `^\| date \|
\| --- \|
\| \d{4}-\d\d-\d\d \| `+"`make chaos SEED=7` \\| "+commit+` \| \d+ processors, \w+ \| 10 min \| 170 \| 3736 \| 0 \|
.* `+commit+` .* none \| 0 \| 0 \| 0 \|
.* `+commit+`\+ .* 1 min \| 0 \| 0 \| 2 \|
$`, string(got))
	require.Contains(t, (&Run{}).line(time.Now(), "v", "m", true), "| failed otherwise |", "a run that fails before its end is kept too")
}
