package local_test

import (
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// The example in the documentation works as it stands there.
func TestDocumentedSpec(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/providers/local.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "```yaml\nspec:\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	spec, err := yaml.YAMLToJSON([]byte(example))
	require.NoError(t, err)

	p := open(t, newRoot(t))
	i := create(t, p, "documented", string(spec))
	eventually(t, func() bool {
		ready, err := p.Ready(t.Context(), refOf(i))
		return assert.NoError(t, err) && assert.False(t, ready.Failed, ready.Detail) && ready.Ready
	})
	var out strings.Builder
	code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
		Command: []string{"sh", "-c", "cat project/README && project/hello"}, Stdout: &out,
	})
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Equal(t, "This is documented, made from template/preset.\nHello from documented\n", out.String())
}
