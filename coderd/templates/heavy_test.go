package templates

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/quartz"
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
			require.ErrorContains(t, err, "at most 57344 are read: split it")

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

// TestRepeats: what few marks can make slow is refused, and as much as is allowed is read. Before, a file of 1 MiB that was
// blank lines after a "|" took minutes.
func TestRepeats(t *testing.T) {
	t.Parallel()
	const spec = "templates:\n- name: a\n  provider: p\n  spec:\n    a: "
	for _, tc := range []struct {
		name, before, unit, after string
		most                      int
		problem                   string
	}{
		{"blank lines", "|\n      x\n", "\n", "", maxBlank, "f:57:1: more than 50 blank lines in a row"},
		{"lines of spaces", "|\n      x\n", "   \n", "", maxBlank, "more than 50 blank lines in a row"},
		{"old ends of lines", ">\n      x\r", "\r", "", maxBlank, "more than 50 blank lines in a row"},
		{"ends of lines of Windows", "|\r\n      x\r\n", "\r\n", "", maxBlank, "more than 50 blank lines in a row"},
		{"tabs", `"x`, "\tx", `"`, maxTabs, "f:5:1010: more than 500 tabs in one line"},
		{"merge keys", "x", "<", "", maxLess, `more than 1000 characters "<" in a row`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("f", spec+tc.before+strings.Repeat(tc.unit, tc.most)+tc.after)
			require.NoError(t, err)
			_, err = Parse("f", spec+tc.before+strings.Repeat(tc.unit, tc.most+1)+tc.after)
			require.ErrorContains(t, err, tc.problem)
			_, err = Parse("f", spec+tc.before+strings.Repeat(tc.unit, 5*tc.most)+tc.after)
			require.ErrorContains(t, err, tc.problem)
			separate := strings.Repeat(strings.Repeat(tc.unit, tc.most)+"      x\n      x", 5)
			_, err = Parse("f", spec+tc.before+separate+tc.after)
			require.NoError(t, err, "what is in between begins anew")
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

// TestWideMappings: a file has few mappings of many settings, or many of few.
func TestWideMappings(t *testing.T) {
	t.Parallel()
	mappings := func(n, keys int) string {
		var b strings.Builder
		b.WriteString("templates:\n- name: a\n  provider: p\n  spec:\n")
		for i := range n {
			fmt.Fprintf(&b, "    m%d:\n", i)
			for k := range keys {
				fmt.Fprintf(&b, "      k%d: 1\n", k)
			}
		}
		return b.String()
	}
	for _, tc := range []struct{ n, keys int }{{1, maxKeys}, {450, 60}} {
		_, err := Parse("f", mappings(tc.n, tc.keys))
		require.NoError(t, err)
	}
	for _, tc := range []struct{ n, keys int }{{5, maxKeys}, {60, 500}} {
		assert.Contains(t, problemsOf(mappings(tc.n, tc.keys)), "too many mappings with many settings: split the file")
	}
	assert.Contains(t, problemsOf("a: ["+strings.Repeat("{"+strings.Repeat("k: 1,", maxKeys)+"},", 5)+"]"), "too many mappings")
}

func problemsOf(source string) string {
	_, err := Parse("f", source)
	return err.Error()
}

// TestReadAlone: who waits for another's heavy file stops waiting with the request. A long file is heavy, however plain.
func TestReadAlone(t *testing.T) { // Not parallel: it holds what all who read need.
	require.NoError(t, reading.Acquire(context.Background(), maxMarks))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := parseAlone(ctx, quartz.NewReal(), "f", "templates: []", &Problems{})
	reading.Release(maxMarks)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "wait until other files are read")

	require.NoError(t, reading.Acquire(context.Background(), 1))
	_, err = parseAlone(ctx, quartz.NewReal(), "f", strings.Repeat("x", maxSource), &Problems{})
	reading.Release(1)
	require.ErrorIs(t, err, context.Canceled)

	problems := &Problems{}
	_, err = parseAlone(context.Background(), quartz.NewReal(), "f", "templates: [}", problems)
	require.NoError(t, err)
	require.NotEmpty(t, problems.List)
}

// TestReadAlone_rest: where a heavy file was read, the next one waits for three times as long as that took.
func TestReadAlone_rest(t *testing.T) { // Not parallel: it holds what all who read need.
	ctx, clock := context.Background(), quartz.NewMock(t)
	trap := clock.Trap().Since("templates", "read")
	read := make(chan error)
	go func() {
		_, err := parseAlone(ctx, clock, "f", strings.Repeat("#", maxMarks), &Problems{})
		read <- err
	}()
	call := trap.MustWait(ctx)
	clock.Advance(time.Second).MustWait(ctx)
	call.MustRelease(ctx)
	trap.Close()
	require.NoError(t, <-read)
	clock.Advance(rest*time.Second - 1).MustWait(ctx)
	require.False(t, reading.TryAcquire(1), "another file is read at once")
	clock.Advance(1).MustWait(ctx)
	require.True(t, reading.TryAcquire(maxMarks))
	reading.Release(maxMarks)
}
