package prebuilds

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// C4, C7: outdated prebuilds at a provider that was deleted by force are not kept until they are replaced, claimable or not;
// those elsewhere are.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	givenUp := func(w *Workspace) { w.GivenUp = true }
	for name, p := range map[string]*pool{
		"claimable":     newPool(3).with(func(p *Preset) { p.KeepOutdated = true }),
		"not claimable": newPool(3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.add(2, Ready, old, givenUp).add(1, Ready, old).add(1, Starting, old, givenUp)
			plan, err := p.plan()
			require.NoError(t, err)
			require.Empty(t, Check(p.preset, p.workspaces, plan, noon))
			reasons := map[Code]int{}
			for _, i := range plan.Intents {
				reasons[i.Code]++
			}
			require.Equal(t, map[Code]int{ProviderDeleted: 2, OutdatedUnready: 1}, reasons)
			require.Equal(t, 3, plan.Create)
		})
	}
}
