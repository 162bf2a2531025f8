package rules

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each table of the schema has one owner, and each grant is made use of.
func TestOwners(t *testing.T) {
	t.Parallel()
	dir := root(t)
	tree, err := Read(os.DirFS(dir), dir)
	require.NoError(t, err)

	tables := make(map[string]int)
	for _, f := range tree.Files {
		if strings.HasPrefix(f.Path, "database/migrations/") {
			for _, m := range regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`).FindAllSubmatch(f.Text, -1) {
				tables[string(m[1])] = 0
			}
			for _, m := range regexp.MustCompile(`(?m)^DROP TABLE (\w+)`).FindAllSubmatch(f.Text, -1) {
				delete(tables, string(m[1]))
			}
		}
	}
	for group, all := range owners {
		for _, table := range all {
			_, known := tables[table]
			assert.True(t, known, "%s owns %s, which is no table", group, table)
			tables[table]++
		}
	}
	delete(tables, "audit_log") // whoever does a thing records it
	for table, n := range tables {
		assert.Equal(t, 1, n, "owners of %s", table)
	}

	used := make(map[string]bool)
	queries := tree.queries()
	require.Greater(t, len(queries), 300, "the statements are not there")
	for _, q := range queries {
		for _, w := range q.writes {
			used[q.group+" "+w.table+" "+w.verb] = true
		}
	}
	for _, g := range grants {
		assert.NotEmpty(t, g.why, "%s may write %s", g.group, g.table)
		assert.False(t, slices.Contains(owners[g.group], g.table), "%s owns %s", g.group, g.table)
		for verb := range strings.FieldsSeq(g.verbs) {
			assert.True(t, used[g.group+" "+g.table+" "+verb], "owners.go: no %s of %s by %s: remove the grant", verb, g.table, g.group)
		}
	}

	groups := make(map[string]bool)
	for _, q := range queries {
		groups[q.group] = true
	}
	for group := range maps.Keys(owners) {
		assert.True(t, groups[group], "queries/%s is not there", group)
	}
}

// Each enum of the schema is the one type of package database in all groups; a group would have a type of its own without.
func TestEnumsAreOneType(t *testing.T) {
	t.Parallel()
	dir := root(t)
	tree, err := Read(os.DirFS(dir), dir)
	require.NoError(t, err)
	var config string
	enums := 0
	for _, f := range tree.Files {
		if f.Path == "sqlc.yaml" {
			config = string(f.Text)
		}
	}
	for _, f := range tree.Files {
		if !strings.HasPrefix(f.Path, "database/migrations/") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^CREATE TYPE (\w+) AS ENUM`).FindAllSubmatch(f.Text, -1) {
			enums++
			assert.Equal(t, 1, strings.Count(config, "db_type: "+string(m[1])+", go_type: github.com"), "%s in sqlc.yaml", m[1])
			assert.Equal(t, 1, strings.Count(config, "db_type: "+string(m[1])+", nullable: true, go_type:"), "%s in sqlc.yaml", m[1])
		}
	}
	assert.Greater(t, enums, 10)
}
