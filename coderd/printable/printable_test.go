package printable_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/printable"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain, ünïcode 漢字 👩‍🚀\tand\nlines": "plain, ünïcode 漢字 👩‍🚀\tand\nlines",
		"\x1b]0;title\a": `\x1b]0;title\a`,
		"\x1b[2J":        `\x1b[2J`,
		"a\rb\x00\x7f":   `a\rb\x00\x7f`,
		"\u009b31m":      `\u009b31m`,
		"invoice\u202egpj.exe \u2066x\u2069 \u200e\ufeff": `invoice\u202egpj.exe \u2066x\u2069 \u200e\ufeff`,
		"not \xff UTF-8": `not \xff UTF-8`,
	} {
		assert.Equal(t, want, printable.Text(in))
	}
}

// TestJSON: what is read back is what was written, and nothing of it steers whoever looks at the lines.
func TestJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\u202e\u009b\U000e0001\x1b\n\"")))).Draw(t, "in")
		var out strings.Builder
		require.NoError(t, json.NewEncoder(printable.JSON(&out)).Encode(map[string]string{"k": in}))
		line := strings.TrimSuffix(out.String(), "\n")
		require.Equal(t, line, printable.Text(line))
		var back map[string]string
		require.NoError(t, json.Unmarshal([]byte(line), &back))
		require.Equal(t, strings.ToValidUTF8(in, "\ufffd"), back["k"])
	})
}

func TestWriter(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\x1b[1;32mgreen\x1b[0m\r\n":             "\x1b[1;32mgreen\x1b[0m\r\n",
		"50 %\r100 %\n":                          `50 %\r100 %` + "\n",
		"\x1b[2J\x1b[1;1Hgone":                   `\x1b[2J\x1b[1;1Hgone`,
		"\x1b[" + strings.Repeat("1;", 40) + "m": `\x1b[` + strings.Repeat("1;", 40) + "m",
		"end \x1b[3":                             `end \x1b[3`,
		"end \xe6\xbc":                           `end \xe6\xbc`,
		"end \r":                                 `end \r`,
	} {
		assert.Equal(t, want, written(t, in))
	}
}

// written is what comes of a text that is written byte by byte.
func written(t require.TestingT, in string) string {
	var out strings.Builder
	w := &printable.Writer{To: &out}
	for i := range len(in) {
		n, err := w.Write([]byte(in[i : i+1]))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.NoError(t, w.Close())
	return out.String()
}

// TestWriter_pieces: whatever is written, in whatever pieces, comes out the same, and never steers.
func TestWriter_pieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"\x1b", "\x1b[", "31m", ";", "\r", "\n", "\x9b", "\xe6", "\u202e", "\x1b[0m",
		}))).Draw(t, "in"), "")
		var whole strings.Builder
		w := &printable.Writer{To: &whole}
		_, err := w.Write([]byte(in))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		out := written(t, in)
		require.Equal(t, whole.String(), out)
		for i, r := range out {
			switch {
			case r == '\n', r == '\t', r == '\u200d', r == '\r' && strings.HasPrefix(out[i:], "\r\n"):
			case r == 0x1b:
				end := strings.IndexFunc(out[i+1:], func(r rune) bool { return r != '[' && r != ';' && (r < '0' || r > '9') })
				require.True(t, end > 0 && out[i+1+end] == 'm', "%q", out)
			default:
				require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Cf, r), "%q", out)
			}
		}
	})
}
