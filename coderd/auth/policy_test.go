package auth_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
)

// TestPolicy holds the whole matrix against testdata/policy.txt, so that a change of who may do what is seen in review.
func TestPolicy(t *testing.T) {
	t.Parallel()
	roles := []database.Role{
		database.RoleOwner, database.RoleTemplateAdmin, database.RoleMember, database.RoleAuditor, database.RoleSystem,
	}
	actions := auth.Actions()
	slices.Sort(actions)
	words := map[auth.Part]string{auth.None: "-", auth.Own: "own", auth.Any: "any"}
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s", "")
	for _, role := range roles {
		fmt.Fprintf(&b, " %-14s", role)
	}
	for _, action := range actions {
		fmt.Fprintf(&b, "\n%-20s", action)
		for _, role := range roles {
			fmt.Fprintf(&b, " %-14s", words[auth.PartOf(role, action)])
		}
	}
	var lines []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	want, err := os.ReadFile("testdata/policy.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), strings.Join(lines, "\n")+"\n")
}

// TestBuiltinIdentity: the role of the built-in identity may do nothing of the API (C16).
func TestBuiltinIdentity(t *testing.T) {
	t.Parallel()
	for _, action := range auth.Actions() {
		require.Equal(t, auth.None, auth.PartOf(database.RoleSystem, action), action)
	}
	require.Equal(t, auth.None, auth.PartOf("emperor", auth.ActReadPresets))
	require.Equal(t, auth.None, auth.PartOf(database.RoleOwner, "preset.eat"))
}

// TestAuditorChangesNothing: everything that an auditor may do only reads, but for putting a login on the record.
func TestAuditorChangesNothing(t *testing.T) {
	t.Parallel()
	for _, action := range auth.Actions() {
		if auth.PartOf(database.RoleAuditor, action) != auth.None && action != auth.ActLogin {
			require.True(t, strings.HasSuffix(string(action), ".read"), action)
		}
	}
}
