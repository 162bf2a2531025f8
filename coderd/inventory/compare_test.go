package inventory

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ours    = uuid.MustParse("10000000-0000-4000-8000-000000000000")
	another = uuid.MustParse("20000000-0000-4000-8000-000000000000")
	id      = uuid.MustParse("30000000-0000-4000-8000-000000000001")
)

// both are an inventory with the workspaces.
type both struct {
	Sides
	Workspaces []Workspace
}

// compare gives the workspaces in the order of their ids, as the database does.
func (b both) compare() (entries []Entry) {
	c := Compare(b.Sides, func(e Entry) { entries = append(entries, e) })
	for _, w := range slices.SortedFunc(slices.Values(b.Workspaces), func(v, w Workspace) int { return byID(v.ID, w.ID) }) {
		c.Workspace(&w)
	}
	c.End()
	return entries
}

// scene is one workspace and one resource of it that agree, listed at noon.
func scene(change ...func(*both)) both {
	s := both{
		Sides: Sides{
			Provider: "sim", Installation: ours, ListedAt: noon, Grace: 10 * time.Second,
			Resources: []provider.Instance{{
				ProviderID: "x", Name: "prebuild-a", Status: provider.StatusRunning, CreatedAt: noon.Add(-2 * time.Hour),
				Tags: provider.Tags{Installation: ours, WorkspaceID: id, Incarnation: 1},
			}},
			AtWork: []Span{{noon.Add(-24 * time.Hour), noon}},
		},
		Workspaces: []Workspace{{
			ID: id, Name: "prebuild-a", Provider: "sim", State: database.WorkspaceStateReady, Incarnation: 1, ProviderID: "x",
			StateAt: noon.Add(-time.Hour),
		}},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func state(to database.WorkspaceState) func(*both) {
	return func(s *both) { s.Workspaces[0].State = to }
}

func gone(s *both)      { s.Resources = nil }
func noRow(s *both)     { s.Workspaces = nil }
func young(s *both)     { s.Workspaces[0].StateAt = noon }
func making(s *both)    { s.Workspaces[0].Making = true }
func stuck(s *both)     { s.Workspaces[0].Stuck = true }
func renamed(s *both)   { s.Resources[0].Name = "by-hand" }
func otherID(s *both)   { s.Resources[0].ProviderID = "y" }
func noID(s *both)      { s.Workspaces[0].ProviderID = "" }
func anotherAt(s *both) { s.Workspaces[0].Provider = "other" }
func lasting(s *both)   { knownAs(s.Resources[0].ProviderID)(s) }
func foreign(s *both)   { s.Resources[0].Tags.Installation = another }
func older(s *both)     { s.Resources[0].Tags.Incarnation, s.Workspaces[0].Incarnation = 1, 2 }
func ageless(s *both)   { s.Resources[0].CreatedAt = time.Time{} }
func lost(s *both)      { s.AtWork = []Span{{noon.Add(-time.Hour), noon}} }

func knownAs(ids ...string) func(*both) {
	return func(s *both) { s.Resources[0].KnownAs = ids }
}

func status(to provider.Status) func(*both) {
	return func(s *both) { s.Resources[0].Status = to }
}

func site(own, row string) func(*both) {
	return func(s *both) { s.Site, s.Workspaces[0].Site = own, row }
}

func deleted(ago time.Duration) func(*both) {
	return func(s *both) {
		at := noon.Add(-ago)
		s.Workspaces[0].State, s.Workspaces[0].DeletedAt = database.WorkspaceStateDeleted, &at
	}
}

func twin(s *both) {
	r := s.Resources[0]
	r.ProviderID = "twin"
	s.Resources = append(s.Resources, r)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const (
		starting, ready, standby = database.WorkspaceStateStarting, database.WorkspaceStateReady, database.WorkspaceStateStandby
		claimed, quarantined     = database.WorkspaceStateClaimed, database.WorkspaceStateQuarantined
		draining, deleting       = database.WorkspaceStateDraining, database.WorkspaceStateDeleting
		provisioning             = database.WorkspaceStateProvisioning
	)
	for _, tc := range []struct {
		name  string
		sides both
		want  []Verdict
	}{
		{"both agree", scene(), []Verdict{OK}},
		{"a claimed one", scene(state(claimed)), []Verdict{OK}},
		{"a quarantined one", scene(state(quarantined)), []Verdict{OK}},
		{"stopped on purpose", scene(state(standby), status(provider.StatusStopped)), []Verdict{OK}},
		{"possibly used: the row says that it is", scene(status(provider.StatusUnknown)), []Verdict{OK}},
		{"renamed, by its id", scene(renamed), []Verdict{OK}},
		{"another id, by its name", scene(otherID), []Verdict{OK}},

		{"where ids last", scene(lasting), []Verdict{OK}},
		{"where ids last, renamed", scene(renamed, lasting), []Verdict{OK}},
		{"where ids last, made anew by somebody", scene(otherID, lasting), []Verdict{Unknown, Missing}},
		{"where ids last, made anew by somebody, claimed", scene(state(claimed), otherID, lasting), []Verdict{Unknown, ClaimedMissing}},
		{"where ids last, made anew by a reset", scene(otherID, knownAs("y", "x")), []Verdict{OK}},
		{"where ids last, while it is being reset", scene(otherID, lasting, making), []Verdict{Making}},
		{"where ids last, never recorded", scene(state(quarantined), noID, lasting), []Verdict{Adopt}},
		{"where ids last, a twin", scene(lasting, twin), []Verdict{OK, Orphan}},

		{"a create is under way", scene(state(provisioning), noID), []Verdict{Making}},
		{"a create has not begun", scene(state(provisioning), noID, gone), []Verdict{Making}},
		{"a reset is under way", scene(state(starting), making, gone), []Verdict{Making}},
		{"drains", scene(state(draining)), []Verdict{Going}},
		{"drains, and is gone", scene(state(draining), gone), []Verdict{Going}},
		{"is deleted", scene(state(deleting)), []Verdict{Going}},
		{"is deleted, and gone", scene(state(deleting), gone), []Verdict{Going}},
		{"cannot be deleted, and is gone", scene(state(deleting), gone, stuck), []Verdict{Vanished}},

		{"starting, missing", scene(state(starting), gone), []Verdict{Missing}},
		{"ready, missing", scene(state(ready), gone), []Verdict{Missing}},
		{"standby, missing", scene(state(standby), gone), []Verdict{Missing}},
		{"claimed, missing", scene(state(claimed), gone), []Verdict{ClaimedMissing}},
		{"quarantined, missing", scene(state(quarantined), gone), []Verdict{Gone}},
		{"ready since the listing began", scene(gone, young), []Verdict{OK}},
		{"claimed since the listing began", scene(state(claimed), gone, young), []Verdict{OK}},
		{"at another provider", scene(gone, anotherAt), nil},
		{"at another site", scene(gone, site("here", "there")), nil},
		{"at this site", scene(gone, site("here", "here")), []Verdict{Missing}},

		{"made and never recorded", scene(state(quarantined), noID), []Verdict{Adopt}},
		{"in error", scene(status(provider.StatusError)), []Verdict{Failed}},
		{"in error, claimed", scene(state(claimed), status(provider.StatusError)), []Verdict{OK}},
		{"in error while it starts: the probe sees", scene(state(starting), status(provider.StatusError)), []Verdict{OK}},
		{"stopped behind our back", scene(status(provider.StatusStopped)), []Verdict{Stopped}},
		{"stopped by its owner", scene(state(claimed), status(provider.StatusStopped)), []Verdict{OK}},
		{"in no state", scene(status("levitating")), []Verdict{Unreadable}},
		{"another incarnation", scene(older), []Verdict{Contradiction}},
		{"another incarnation, being reset", scene(older, state(starting), making), []Verdict{Making}},

		{"listed twice", scene(func(s *both) { s.Resources = append(s.Resources, s.Resources[0]) }), []Verdict{OK}},
		{"a twin", scene(twin), []Verdict{OK, Orphan}},
		{"a twin of a claimed one", scene(state(claimed), twin), []Verdict{OK, Orphan}},
		{"twins, and which is its own is not known", scene(noID, twin), []Verdict{Contradiction, Unknown}},
		{"twins of which neither is the recorded one", scene(otherID, twin), []Verdict{Contradiction, Unknown}},
		{"its tags on something else", scene(renamed, otherID), []Verdict{Unknown, Missing}},
		{"begun anew elsewhere", scene(site("here", "there")), []Verdict{Orphan}},

		{"deleted an hour ago", scene(deleted(time.Hour)), []Verdict{Orphan}},
		{"deleted just now", scene(deleted(9 * time.Second)), []Verdict{Going}},
		{"deleted after the listing", scene(deleted(-time.Second)), []Verdict{Going}},
		{"deleted, and gone", scene(deleted(time.Hour), gone), nil},
		{"deleted at another provider", scene(deleted(time.Hour), anotherAt), []Verdict{Orphan}},
		{"another provider's", scene(anotherAt), nil},

		{"no row", scene(noRow), []Verdict{Orphan}},
		{"no row, of a lost history", scene(noRow, lost), []Verdict{Unknown}},
		{"no row, and no age", scene(noRow, ageless), []Verdict{Unknown}},
		{"another installation's", scene(foreign), []Verdict{Missing}},
		{"another installation's, and no row", scene(foreign, noRow), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []Verdict
			for _, e := range tc.sides.compare() {
				got = append(got, e.Verdict)
				if e.Verdict.Amiss() {
					assert.NotEmpty(t, e.Detail)
				}
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

// An id says when it was made, where the provider does not.
func TestCompare_ageOfAnID(t *testing.T) {
	t.Parallel()
	s := scene(noRow, ageless)
	s.Resources[0].Tags.WorkspaceID = uuid.Must(uuid.NewV7())
	require.Equal(t, Unknown, s.compare()[0].Verdict, "it was made after noon")
	now := time.Now()
	s.AtWork = []Span{{now.Add(-time.Hour), now.Add(time.Hour)}}
	require.Equal(t, Orphan, s.compare()[0].Verdict)
}

// What a check of a provider makes is no discrepancy while the check may last, and an orphan once it cannot.
func TestCompare_madeByACheck(t *testing.T) {
	t.Parallel()
	s := scene(noRow)
	s.Resources[0].Name, s.Resources[0].CreatedAt = "check-abcdefgh-twice", s.ListedAt.Add(-2*time.Hour)
	s.AtWork = []Span{{s.ListedAt.Add(-24 * time.Hour), s.ListedAt}}
	require.Equal(t, Making, s.compare()[0].Verdict)
	require.False(t, s.compare()[0].Verdict.Amiss())
	s.Resources[0].CreatedAt = s.ListedAt.Add(-4 * time.Hour)
	require.Equal(t, Orphan, s.compare()[0].Verdict)
	s.Resources[0].Name = "prebuild-abc"
	s.Resources[0].CreatedAt = s.ListedAt.Add(-2 * time.Hour)
	require.Equal(t, Orphan, s.compare()[0].Verdict)
}

// Whatever both sides say: nothing foreign is judged, no live workspace's only resource is an orphan, nothing happens to
// a claimed one, each resource has one verdict, and the order of the lists decides nothing.
func TestCompare_isSafe(t *testing.T) {
	t.Parallel()
	states := rapid.SampledFrom(database.AllWorkspaceStateValues())
	statuses := rapid.SampledFrom([]provider.Status{
		provider.StatusRunning, provider.StatusRunning, provider.StatusStopped, provider.StatusError, provider.StatusUnknown, "odd",
	})
	one := func(t *rapid.T, what string) uuid.UUID {
		return uuid.UUID{6: 0x40, 8: 0x80, 15: byte(rapid.IntRange(1, 5).Draw(t, what))}
	}
	ids := rapid.SampledFrom([]string{"", "x", "y"})
	names := rapid.SampledFrom([]string{"a", "a", "b"})
	sites := rapid.SampledFrom([]string{"", "here", "there"})
	rapid.Check(t, func(t *rapid.T) {
		s := both{Sides: Sides{
			Provider: "sim", Site: sites.Draw(t, "site"), Installation: ours, ListedAt: noon, Grace: time.Second,
		}}
		rows := map[uuid.UUID]Workspace{}
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			w := Workspace{
				ID: one(t, "row"), Name: names.Draw(t, "name"), Provider: rapid.SampledFrom([]string{"sim", "sim", "other"}).Draw(t, "at"),
				Site: sites.Draw(t, "row's site"), State: states.Draw(t, "state"), Incarnation: int32(rapid.IntRange(1, 2).Draw(t, "inc")),
				ProviderID: ids.Draw(t, "id"), StateAt: noon.Add(time.Duration(rapid.IntRange(-2, 1).Draw(t, "since")) * time.Second),
				Making: rapid.Bool().Draw(t, "making"), Stuck: rapid.Bool().Draw(t, "stuck"),
			}
			if _, twice := rows[w.ID]; !twice {
				rows[w.ID] = w
				s.Workspaces = append(s.Workspaces, w)
			}
		}
		lasting := rapid.Bool().Draw(t, "ids last")
		for range rapid.IntRange(0, 8).Draw(t, "resources") {
			id := ids.Draw(t, "id")
			var known []string
			if lasting {
				known = []string{id}
			}
			s.Resources = append(s.Resources, provider.Instance{
				KnownAs: known, ProviderID: id, Name: names.Draw(t, "name"), Status: statuses.Draw(t, "status"),
				Tags: provider.Tags{
					Installation: rapid.SampledFrom([]uuid.UUID{ours, ours, another}).Draw(t, "whose"), WorkspaceID: one(t, "of"),
					Incarnation: int32(rapid.IntRange(1, 2).Draw(t, "inc")),
				},
			})
		}
		if rapid.Bool().Draw(t, "at work") {
			s.AtWork = []Span{{time.Time{}, noon}}
		}
		entries := s.compare()
		require.True(t, slices.IsSortedFunc(entries, func(a, b Entry) int { return byID(a.WorkspaceID(), b.WorkspaceID()) }))
		judged := map[*provider.Instance]bool{}
		for _, e := range entries {
			w := e.Workspace
			if e.Resource != nil {
				require.Equal(t, ours, e.Resource.Tags.Installation, "S6: never touch what is not ours")
				require.False(t, judged[e.Resource], "one verdict each")
				judged[e.Resource] = true
			}
			if w != nil && w.State == database.WorkspaceStateClaimed && w.Provider == "sim" {
				require.NotContains(t, []Verdict{Missing, Failed, Stopped, Vanished}, e.Verdict, "I2")
			}
			if w != nil && w.Provider != "sim" {
				require.Equal(t, database.WorkspaceStateDeleted, w.State, "another provider's live workspace is not judged")
			}
			if e.Verdict == Orphan && w != nil && w.State != database.WorkspaceStateDeleted && s.here(w) {
				require.NotEmpty(t, w.ProviderID)
				require.NotEqual(t, w.ProviderID, e.Resource.ProviderID, "the workspace's own resource is no orphan")
				require.True(t, func() bool {
					for _, r := range s.Resources {
						if r.Tags == e.Resource.Tags || r.Tags.WorkspaceID == w.ID && r.Tags.Installation == ours && r.ProviderID == w.ProviderID {
							return true
						}
					}
					return false
				}(), "its own is there")
				require.False(t, w.Making)
			}
			if e.Verdict == Orphan && w == nil {
				require.NotEmpty(t, s.AtWork, "a resource of a history that is not known is left alone")
			}
		}
		shuffled := s
		shuffled.Resources = append([]provider.Instance{}, s.Resources...)
		shuffled.Workspaces = append([]Workspace{}, s.Workspaces...)
		dice := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "order")))
		dice.Shuffle(len(shuffled.Resources), func(i, j int) {
			shuffled.Resources[i], shuffled.Resources[j] = shuffled.Resources[j], shuffled.Resources[i]
		})
		dice.Shuffle(len(shuffled.Workspaces), func(i, j int) {
			shuffled.Workspaces[i], shuffled.Workspaces[j] = shuffled.Workspaces[j], shuffled.Workspaces[i]
		})
		again := map[string]int{}
		for _, e := range entries {
			again[string(e.Verdict)+" "+e.Subject()]++
		}
		for _, e := range shuffled.compare() {
			again[string(e.Verdict)+" "+e.Subject()]--
		}
		for what, n := range again {
			require.Zero(t, n, what)
		}
	})
}
