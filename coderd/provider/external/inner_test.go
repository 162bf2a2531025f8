package external

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cloudbase/garm-provider-common/params"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

func TestResourceNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,34}[a-z0-9])?`).Draw(t, "name")
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		made := resourceName(name, id)
		assert.LessOrEqual(t, len(made), 63)
		gotName, gotID, ok := parseResourceName(strings.ToUpper(made))
		require.True(t, ok, made)
		assert.Equal(t, name, gotName)
		assert.Equal(t, id, gotID)
	})
	for _, foreign := range []string{
		"", "garm-aBcDeFgHiJkL", "prebuild-aebagbafaydqqcikbmga2", strings.Repeat("a", 26), "-" + strings.Repeat("a", 26),
		"x-" + strings.Repeat("a", 25) + "b", // bits that no id has
		"x_" + strings.Repeat("a", 26), "a/b-" + strings.Repeat("a", 26),
	} {
		_, _, ok := parseResourceName(foreign)
		assert.False(t, ok, foreign)
	}
}

// G2: the system that the executable names is passed on.
func TestInstanceOf_system(t *testing.T) {
	t.Parallel()
	installation := uuid.New()
	raw := params.ProviderInstance{Name: resourceName("a", uuid.New()), OSName: " ubuntu\n", OSVersion: "24.04"}
	i, ok := instanceOf(raw, installation)
	require.True(t, ok)
	assert.Equal(t, "ubuntu", i.OSName)
	assert.Equal(t, "24.04", i.OSVersion)
}

func TestRedact(t *testing.T) {
	t.Parallel()
	var known secrets
	known.add("swordfish", "swordfish-and-chips", "1")
	for text, want := range map[string]string{
		"flavor 1 not found in region eu-1":       "flavor 1 not found in region eu-1",
		"got swordfish-and-chips, not swordfish":  "got [redacted], not [redacted]",
		`{"password": "p w", "user": "me"}`:       `{"password": [redacted], "user": "me"}`,
		"OS_AUTH_TOKEN=abc OS_REGION=eu":          "OS_AUTH_TOKEN=[redacted] OS_REGION=eu",
		"Authorization: Bearer abcdef0123456789.": "Authorization: [redacted]",
		"with bearer abcdef0123456789 refused":    "with [redacted] refused",
		"https://me:secret@cloud/v3 refused":      "https://[redacted]@cloud/v3 refused",
		"key AKIAIOSFODNN7EXAMPLE denied":         "key [redacted] denied",
		"token is ghp_0123456789abcdef":           "token is [redacted]",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n": "[redacted]",
		"jwt eyJhbGciOiJIUzI1.eyJzdWIi.c2ln done": "jwt [redacted] done",
		"https://cloud/v3?api_key=abc&zone=1":     "https://cloud/v3?api_key=[redacted]&zone=1",
	} {
		assert.Equal(t, want, known.redact(text))
	}
	assert.ElementsMatch(t, []string{"hunter2", "abc def", "x/y"},
		secretsIn("user = \"me\"\npassword = \"hunter2\"\nsecret_key: 'abc def'\n\"api_token\": x/y\n"))
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, none := range []string{"", " \n", "null"} {
		s, err := parseSchema([]byte(none))
		require.NoError(t, err)
		assert.Empty(t, s.problems([]byte(`{"any": 1}`)))
		assert.False(t, s.has("any"))
	}
	for bad, want := range map[string]string{
		`{"type":`:                         "read schema",
		`{"type": 7}`:                      "compile schema",
		`{"$ref": "file:///etc/passwd"}`:   "outside itself",
		`{"$ref": "https://cloud/schema"}`: "outside itself",
	} {
		_, err := parseSchema([]byte(bad))
		require.ErrorContains(t, err, want)
	}
	s, err := parseSchema([]byte(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/x",
		"$defs": {"x": {"type": "object", "required": ["zone"], "properties": {
			"zone": {"type": "string"}, "net": {"type": "object", "properties": {"mtu": {"type": "integer"}}}}}}}`))
	require.NoError(t, err)
	assert.True(t, s.has("mtu"))
	assert.False(t, s.has("mtus"))
	paths := map[string]string{}
	for _, p := range s.problems([]byte(`{"net": {"mtu": "big"}}`)) {
		paths[p.Path] = p.Message
	}
	assert.Equal(t, map[string]string{"": "missing property 'zone'", "net.mtu": "got string, want integer"}, paths)
}

func TestTailKeepsWholeLines(t *testing.T) {
	t.Parallel()
	kept := &provider.Tail{Limit: 20}
	for range 1000 {
		_, _ = kept.Write([]byte("password=hunter2\n"))
	}
	assert.Equal(t, "password=hunter2\n", kept.String())
	short := &provider.Tail{Limit: 20}
	_, _ = short.Write([]byte("all of it"))
	assert.Equal(t, "all of it", short.String())
}

// What a process wrote before its end is its answer, whoever else holds the pipe and however late it is read.
func TestDrain_takesWhatIsThereAndWaitsForNoMore(t *testing.T) {
	t.Parallel()
	pipe, end, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	defer end.Close() // still open: an end of file never comes
	_, err = end.WriteString("the whole answer")
	require.NoError(t, err)
	require.NoError(t, pipe.SetReadDeadline(time.Unix(1, 0)))

	var got bytes.Buffer
	drain(pipe, &got)

	require.Equal(t, "the whole answer", got.String())
}
