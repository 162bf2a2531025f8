package templates

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// heavy are files of less than a megabyte that cost the parser most: before they were refused, 16 s and 1.3 GB each.
var heavy = map[string]string{
	"items that are empty": "templates:\n" + strings.Repeat("- \n", 300_000),
	"settings in braces":   "templates:\n- spec: {" + strings.Repeat("b,", 500_000) + "}\n",
	"empty lists":          "templates:\n- spec: {a: [" + strings.Repeat("[],", 300_000) + "]}\n",
	"colons":               strings.Repeat(": ", 500_000),
	"comments":             strings.Repeat("#\n", 500_000),
	"documents":            strings.Repeat("--- \n", 200_000),
}

// TestHeavyFile: a file that would be slow or large to parse is refused by its characters alone, and one that is just
// within the limit costs at most 300 MB in all, most of which is free again while it is parsed.
func TestHeavyFile(t *testing.T) { // Not parallel: it counts what the process allocates.
	for name, source := range heavy {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", source)
			require.ErrorContains(t, err, "at most 65536 are read: split it")

			within := source[:len(source)*(maxMarks-100)/marks(source)]
			require.LessOrEqual(t, marks(within), maxMarks)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = Parse("f", within)
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "are read")
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(300<<20))
		})
	}
}

// TestManyMarks: what a file has within texts is no reason to refuse it, unless it is very much.
func TestManyMarks(t *testing.T) {
	t.Parallel()
	script := strings.Repeat("    curl -fsS https://example.com/a-b.tar.gz | tar -xz -C \"$HOME\"  # fetch\n", 5_000)
	doc, err := Parse("f", "templates:\n- name: a\n  provider: p\n  spec:\n   script: |\n"+script)
	require.NoError(t, err)
	require.Len(t, doc.Templates, 1)
}

// TestDeepBlocks: mappings that are ever further right, and those that end again, are followed in one way.
func TestDeepBlocks(t *testing.T) {
	t.Parallel()
	wide := func(indent string) string {
		var b strings.Builder
		for i := range maxKeys - 1 {
			b.WriteString(indent + "k" + strings.Repeat("x", i%7) + ": 1\n")
		}
		return b.String()
	}
	within := "a:\n" + wide("  ") + "b:\n" + wide("  ") + "c:\n   d:\n" + wide("      ")
	assert.NotContains(t, problemsOf(within), "too many settings")
	assert.Contains(t, problemsOf("a:\n"+wide("  ")+"  y: 1\n  z: 1\n"), "too many settings in one mapping")
	assert.Contains(t, problemsOf("a:\n"+wide("  ")+"  y:\n     z: 1\n  w: 1\n"), "too many settings in one mapping")
}

func problemsOf(source string) string {
	_, err := Parse("f", source)
	return err.Error()
}

// TestReadAlone: who waits for another's heavy file stops waiting with the request.
func TestReadAlone(t *testing.T) { // Not parallel: it holds what all who read need.
	require.NoError(t, reading.Acquire(context.Background(), maxMarks))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := parseAlone(ctx, "f", "templates: []", &Problems{})
	reading.Release(maxMarks)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "wait until other files are read")

	problems := &Problems{}
	_, err = parseAlone(context.Background(), "f", "templates: [}", problems)
	require.NoError(t, err)
	require.NotEmpty(t, problems.List)
}
