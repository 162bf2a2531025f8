package runnertest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Update has Hold write the table, and tests run all of its cells.
var Update = flag.Bool("update", false, "write the table of docs/forges.md again")

// Column is a column of the table.
type Column struct {
	ID   string // the provider's name in tests
	Name string // in the table
}

// The columns, in their order.
var (
	Local       = Column{"local", "`local`"}
	Docker      = Column{"containers", "`docker`"}
	Kubernetes  = Column{"cluster", "`kubernetes`"}
	External    = Column{"ext-schema", "`external`, v0.1.1"}
	ExternalOld = Column{"ext-old", "`external`, v0.1.0, `install_script`"}
	ExternalOwn = Column{"ext-own", "`external`, v0.1.0, no agent"}
	Hosts       = Column{"fleet", "`hosts`"}
	Sim         = Column{"sim", "`sim`"}

	columns = []Column{Local, Docker, Kubernetes, External, ExternalOld, ExternalOwn, Hosts, Sim}
)

// Hold compares the table of docs/forges.md with what became of the cells that were run, or writes it with -update. What was not run
// stays as it is.
func Hold(t *testing.T, kinds []*Kind, became map[Cell]string) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	page := filepath.Join(filepath.Dir(here), "..", "..", "..", "docs", "forges.md")
	const begin, end = "<!-- what runs where -->\n", "<!-- end of what runs where -->"
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(raw), begin)
	is, after, ends := strings.Cut(rest, end)
	require.True(t, found && ends, "%s has no place for the table", page)
	all := read(is, kinds)
	for cell, outcome := range became {
		all[cell] = outcome
	}
	table := write(kinds, all)
	if *Update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+table+end+after), 0o644))
		return
	}
	require.Equal(t, table, is, "run %s with -update", t.Name())
}

func write(kinds []*Kind, became map[Cell]string) string {
	var b strings.Builder
	b.WriteString("| runner | scope |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.Name)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(columns)+2) + "\n")
	for _, k := range kinds {
		for _, s := range Scopes {
			fmt.Fprintf(&b, "| %s | %s |", k.Name, s.Scope)
			for _, c := range columns {
				fmt.Fprintf(&b, " %s |", became[Cell{c.ID, k.ID, s.Scope}])
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// read finds each column by its name in the first line, so that one can be added.
func read(table string, kinds []*Kind) map[Cell]string {
	became := map[Cell]string{}
	var names []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if names == nil {
			names = cells
		}
		for _, k := range kinds {
			for _, s := range Scopes {
				if len(cells) != len(names) || cells[0] != k.Name || cells[1] != s.Scope {
					continue
				}
				for i, name := range names {
					for _, c := range columns {
						if c.Name == name {
							became[Cell{c.ID, k.ID, s.Scope}] = cells[i]
						}
					}
				}
			}
		}
	}
	return became
}
