package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

// Each isolated workspace of `local` starts the binary twice as its supervisor. That must not wait for what only a server or a
// client needs: getting all packages ready takes four times as long as all that a supervisor does.
func TestSupervisor_startsAlone(t *testing.T) {
	t.Parallel()
	ready := func(args ...string) (packages []string, out e2etest.Outcome) {
		out = e2etest.Run(t.Context(), t, []string{"GODEBUG=inittrace=1"}, args...)
		for line := range strings.Lines(out.Stderr) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "init" {
				packages = append(packages, fields[1])
			}
		}
		return packages, out
	}
	all, _ := ready("version")
	some, out := ready("local-supervisor")
	require.Contains(t, out.Stderr, "local-supervisor is started by the server, never by hand")
	for _, heavy := range []string{"github.com/prewarm-dev/prewarm/coderd/api", "github.com/santhosh-tekuri/jsonschema/v6"} {
		require.Contains(t, all, heavy)
		require.NotContains(t, some, heavy)
	}
}
