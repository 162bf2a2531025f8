package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What a provider says of a failure can be pages: a list shows a line that can be read, and what shows one thing all of it.
func TestTable_longErrors(t *testing.T) {
	t.Parallel()
	fault := "create: exit status 1:\n" + strings.Repeat("{\"détail\": \"no\x1b[31m room\"}\n", 100)
	a := &app{stdout: &strings.Builder{}, clock: quartz.NewReal(), env: func(string) string { return "" }}
	list := a.workspacesText([]sdk.Workspace{{Name: "prebuild-1", State: "quarantined", Fault: fault}})
	rows := strings.Split(strings.TrimSpace(list), "\n")
	require.Len(t, rows, 2)
	require.NotContains(t, list, "\x1b")
	require.Contains(t, rows[1], `{"détail": "no\x1b[31m room"} (create: exit status 1)`)
	list = a.workspacesText([]sdk.Workspace{{Name: "prebuild-1", State: "quarantined", Fault: strings.Repeat("x", 1000)}})
	rows = strings.Split(strings.TrimSpace(list), "\n")
	require.True(t, strings.HasSuffix(rows[1], "…"), rows[1])
	require.Less(t, utf8.RuneCountInString(rows[1]), cellMost+120)

	properties := a.newTable()
	properties.add("Fault", fault)
	require.Equal(t, 100, strings.Count(properties.String(), "détail"))
	require.Equal(t, 1, strings.Count(properties.String(), "\n"))
}
