package templates

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A change of a long script shows the part that differs, as it was written.
func TestJSONFields(t *testing.T) {
	t.Parallel()
	spec := func(setup string) json.RawMessage {
		encoded, err := json.Marshal(map[string][]string{"setup": {"sh", "-c", setup}})
		require.NoError(t, err)
		return encoded
	}
	for _, c := range []struct{ old, fresh, want string }{
		{"mkdri a && b", "mkdir a && b", `spec.setup: ["sh","-c","mkdri a && b"] -> ["sh","-c","mkdir a && b"]`},
		{
			"git clone https://example.com/shop.git project && cd project && make", "git clone https://example.com/shop.git project && cd project && make all",
			`spec.setup: …project && make"] -> …project && make all"]`,
		},
	} {
		require.Equal(t, []string{c.want}, jsonFields("spec", spec(c.old), spec(c.fresh)))
	}
	require.Empty(t, jsonFields("spec", spec("a && b"), spec("a && b")))
	require.Equal(t, []string{"spec.large: 12345678901234567890 -> (none)"},
		jsonFields("spec", json.RawMessage(`{"large":12345678901234567890}`), nil))
}
