package templates_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/templates"
)

// TestBadInputAsDocumented applies each row of the table of docs/refusals.md: the error is as the page says, and has
// its place in the file; and nothing at all is changed, though the rest of the file is new.
func TestBadInputAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/refusals.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| wrong | in | as written | what apply says |\n| --- | --- | --- | --- |\n")
	require.True(t, found)
	b := newBench(t)
	b.apply(t, documented("", ""))
	before := b.dump(t)
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		require.Len(t, cells, 4, line)
		wrong, in := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1])
		written, says := strings.Trim(strings.TrimSpace(cells[2]), "`"), strings.TrimSpace(cells[3])
		rows++
		t.Run(wrong, func(t *testing.T) {
			file := documented(in, written)
			for _, dryRun := range []bool{true, false} {
				_, err := b.try(file, dryRun)
				var problems *templates.Problems
				require.ErrorAs(t, err, &problems, "%s\n%v", file, err)
				require.Contains(t, err.Error(), says)
				require.Len(t, problems.List, 1, "%v", err)
				require.Positive(t, problems.List[0].Pos.Line)
				require.Equal(t, before, b.dump(t), "nothing is changed")
			}
		})
	}
	require.GreaterOrEqual(t, rows, 20, "the table is no longer found")
}

// documented is a file with a setting in one place, and beside it a template that is new.
func documented(in, setting string) string {
	at := map[string]string{"prebuilds": "instances: 3"}
	if in != "" {
		at[in] = strings.TrimPrefix(at[in]+", "+setting, ", ")
		if strings.HasPrefix(setting, "instances:") {
			at[in] = setting
		}
	}
	more := ""
	if in != "" {
		more = ", {name: new, provider: here, spec: {command: [x]}}"
	}
	comma := func(s string) string {
		if s == "" {
			return ""
		}
		return ", " + s
	}
	return fmt.Sprintf(`
providers: [{name: here, kind: fake%s}]
templates: [{name: a, provider: here, spec: {command: [x]}%s,
  presets: [{name: p%s, prebuilds: {%s}}]}%s]
`, comma(at["provider"]), comma(at["template"]), comma(at["preset"]), at["prebuilds"], more)
}
