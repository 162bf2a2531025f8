package terraform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Of a plan the resources are read that applying it creates and removes, and nothing else.
func TestPlanned(t *testing.T) {
	t.Parallel()
	change := func(mode, address, actions string) string {
		of := "registry.terraform.io/hashicorp/t"
		if strings.HasPrefix(address, "coder_") {
			of = "registry.terraform.io/coder/coder"
		}
		return fmt.Sprintf(`{"address":%q,"mode":%q,"provider_name":%q,"change":{"actions":[%s],"after":{"deep":[{"secret":"]}"}]}}}`, address, mode, of, actions)
	}
	for name, of := range map[string]struct {
		plan             string
		creates, removes []string
	}{
		"nothing": {plan: `{"format_version":"1.2","prior_state":{"values":[{"x":[1]}]}}`},
		"null":    {plan: `{"resource_changes":[]}`},
		"all": {`{"resource_drift":[` + change("managed", "t.drift", `"create"`) + `],"resource_changes":[` + strings.Join([]string{
			change("managed", "t.new", `"create"`), change("data", "data.t.x", `"read"`), change("managed", "t.same", `"no-op"`),
			change("managed", "t.gone", `"delete"`), change("managed", "coder_agent.main", `"delete","create"`), change("managed", "t.replaced", `"delete","create"`),
			change("managed", `module.m["a.b"].t.n[0]`, `"create"`), change("managed", "t.other", `"update"`),
		}, ",") + `],"checks":[]}`, []string{"t.new", "t.replaced (its replacement)", `module.m["a.b"].t.n[0]`}, []string{"t.gone", "t.replaced"}},
	} {
		got, err := planned(strings.NewReader(of.plan))
		require.NoError(t, err, name)
		require.Equal(t, of.creates, got.Creates, name)
		require.Equal(t, of.removes, got.Removes, name)
	}
	whole := `{"a":{},"resource_changes":[` + change("managed", "t.new", `"create"`) + `]}`
	for n := range len(whole) {
		_, err := planned(strings.NewReader(whole[:n]))
		require.Error(t, err, whole[:n])
	}
	_, err := planned(strings.NewReader(`{"resource_changes":{}}`))
	require.Error(t, err)
}

// Of a plan the resources are read that are not as the state says and that applying would mend: not those that a place changes by itself
// or that have another address now, nor what changes though it is as the state says.
func TestDrifted(t *testing.T) {
	t.Parallel()
	list := func(name string, all ...string) string {
		var changes []string
		for _, is := range all {
			address, action, _ := strings.Cut(is, " ")
			of := "registry.terraform.io/hashicorp/t"
			if strings.HasPrefix(address, "coder_") {
				of = "registry.terraform.io/coder/coder"
			}
			changes = append(changes, fmt.Sprintf(`{"address":%q,"mode":"managed","provider_name":%q,"change":{"actions":[%q]}}`, address, of, action))
		}
		return fmt.Sprintf("%q:[%s]", name, strings.Join(changes, ","))
	}
	drift := list("resource_drift", "t.gone delete", "t.other update", "t.itself update", "t.moved no-op", "coder_agent.main update")
	planned := list("resource_changes", "t.gone create", "t.other update", "t.itself no-op", "t.moved update", "t.new create", "coder_agent.main update")
	for _, plan := range []string{drift + "," + planned, planned + "," + drift} {
		got, err := drifted(strings.NewReader("{" + plan + "}"))
		require.NoError(t, err)
		require.Equal(t, []string{"t.gone", "t.other"}, got)
	}
	got, err := drifted(strings.NewReader("{" + planned + "}"))
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = drifted(strings.NewReader("{" + drift))
	require.Error(t, err)
}

// What of a large plan is not kept stays unsure: no state has such an address.
func TestPlanned_large(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct{ length, changes, kept int }{
		"many": {10, maxCreates + 7, maxCreates}, "long": {1 << 10, 1<<10 + 7, 1 << 10},
	} {
		change := `{"address":"` + strings.Repeat("a", of.length) + `","mode":"managed","change":{"actions":["create"]}}`
		got, err := planned(strings.NewReader(`{"resource_changes":[` + strings.Repeat(change+",", of.changes-1) + change + `]}`))
		require.NoError(t, err, name)
		require.Len(t, got.Creates, of.kept+1, name)
		require.Equal(t, "7 more", got.Creates[of.kept], name)
	}
}

// A message names what it can, and says how much it does not name.
func TestStored_doubt(t *testing.T) {
	t.Parallel()
	few := Stored{Name: "w", Unsure: []string{"t.a", "t.b"}}
	require.Contains(t, few.doubt(), "names them: t.a, t.b. Look")
	require.Contains(t, few.doubt(), "prewarm workspace delete w --force")
	check := Stored{Name: provider.CheckPrefix + "x", Unsure: []string{"t.a"}}
	require.NotContains(t, check.doubt(), "prewarm workspace delete", "there is no workspace")
	many := Stored{Unsure: strings.Split(strings.Repeat("terraform_data.machine ", 999)+"x", " ")}
	require.Less(t, len(many.doubt()), mostDoubt+1000)
	require.Regexp(t, ` and \d+ more\. Look`, many.doubt())
}
