package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/judge"
)

var (
	began   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	kept    = uuid.MustParse("00000000-0000-0000-0000-00000000000a")
	given   = uuid.MustParse("00000000-0000-0000-0000-00000000000b")
	spare   = uuid.MustParse("00000000-0000-0000-0000-00000000000c")
	another = uuid.MustParse("00000000-0000-0000-0000-00000000000d")
	claimA  = uuid.MustParse("00000000-0000-0000-0000-0000000000aa")
	claimB  = uuid.MustParse("00000000-0000-0000-0000-0000000000bb")
)

func at(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }

func event(s float64, id uuid.UUID, providerID string, deleted bool) judge.Event {
	return judge.Event{
		Deleted: deleted, ProviderID: providerID, WorkspaceID: id, NotBefore: at(s - 0.1), NotAfter: at(s),
	}
}

// innocent is a run in which nothing was wrong: one claim kept, one given back, one prebuild left.
func innocent() judge.Evidence {
	return judge.Evidence{
		Claims: []judge.Claim{
			{Key: "a", Asked: at(10), Answered: at(10.5), Workspaces: []uuid.UUID{kept, kept}, ClaimID: claimA},
			{
				Key: "b", Asked: at(11), Answered: at(12), Workspaces: []uuid.UUID{given}, ClaimID: claimB,
				ReleaseAsked: at(20), ReleaseAnswered: at(21),
			},
			{Key: "c", Asked: at(12), Answered: at(17)},
		},
		Events: []judge.Event{
			event(1, kept, "p1", false), event(2, given, "p2", false), event(3, spare, "p3", false),
			event(22, given, "p2", true),
		},
		Left: map[string]uuid.UUID{"p1": kept, "p3": spare},
		Workspaces: map[uuid.UUID]judge.Workspace{
			kept:  {State: "claimed", ClaimID: claimA, CreatedAt: at(0)},
			given: {State: "deleted", ClaimID: claimB, CreatedAt: at(0), DeletedAt: at(23)},
			spare: {State: "ready", CreatedAt: at(0)},
		},
		Maximum: 3, Crowd: 3, LateGrace: 150 * time.Second,
	}
}

func TestInnocent(t *testing.T) {
	v := judge.Judge(innocent())
	assert.Equal(t, judge.Verdict{
		Claimed: 2, Missed: 1, Released: 1, Most: 3,
		LongestOutage: 5 * time.Second, OutageFrom: at(12), LongestWait: 5 * time.Second,
	}, v)
}

// Each line does one thing wrong.
func TestGuilty(t *testing.T) {
	late := func(e *judge.Evidence, gone float64) {
		e.Events = append(e.Events, event(30, given, "p9", false), event(gone, given, "p9", true))
	}
	frozen := []judge.Freeze{{Replica: "replica-0", From: at(5), To: at(29.5)}}
	for what, c := range map[string]struct {
		do   func(e *judge.Evidence)
		want string // the beginning of the one violation; empty: none
	}{
		"two claims, one workspace": {func(e *judge.Evidence) {
			e.Claims = append(e.Claims, judge.Claim{
				Key: "d", Asked: at(1), Answered: at(2), Workspaces: []uuid.UUID{kept}, ClaimID: claimB,
			})
		}, "twice: workspace"},
		"one key, two workspaces": {func(e *judge.Evidence) { e.Claims[0].Workspaces[1] = spare }, "twice: claim a"},
		"never answered":          {func(e *judge.Evidence) { e.Claims[2].Answered = time.Time{} }, "unanswered: claim c"},
		"release never answered": {func(e *judge.Evidence) {
			e.Claims[1].ReleaseAnswered = time.Time{}
		}, "unanswered: the release"},
		"of another claim": {func(e *judge.Evidence) {
			e.Workspaces[kept] = judge.Workspace{State: "claimed", ClaimID: claimB, CreatedAt: at(0)}
		}, "lost: workspace"},
		"ready again": {func(e *judge.Evidence) {
			e.Workspaces[kept] = judge.Workspace{State: "ready", CreatedAt: at(0)}
		}, "lost: workspace"},
		"not released": {func(e *judge.Evidence) {
			e.Workspaces[given] = judge.Workspace{State: "draining", CreatedAt: at(0)}
		}, "lost: workspace"},
		"gone while claimed": {func(e *judge.Evidence) { e.Events[3] = event(19, given, "p2", true) }, "deleted: "},
		"gone before its claim was answered": {func(e *judge.Evidence) {
			e.Events = append(e.Events, event(9, kept, "p1", true))
		}, "deleted: "},
		"made again before it was ready": {func(e *judge.Evidence) {
			e.Events = append([]judge.Event{event(0.1, kept, "p0", false), event(0.5, kept, "p0", true)}, e.Events...)
		}, ""},
		"a claim that nobody knows of": {func(e *judge.Evidence) {
			e.Workspaces[spare] = judge.Workspace{State: "claimed", ClaimID: claimB, CreatedAt: at(0)}
		}, "unknown: "},
		"a resource too many":  {func(e *judge.Evidence) { e.Left["p8"] = given }, "leak: resource p8"},
		"a resource of nobody": {func(e *judge.Evidence) { e.Left["p8"] = another }, "leak: resource p8"},
		"a resource too few":   {func(e *judge.Evidence) { delete(e.Left, "p3") }, "leak: workspace"},
		"two at a time": {func(e *judge.Evidence) {
			e.Maximum = 0
			e.Events = append(e.Events, event(4, kept, "p1b", false))
		}, "duplicate: "},
		"too many, by its own count": {func(e *judge.Evidence) { e.Crowd = 4 }, "maximum: the installation"},
		"too many at the provider": {func(e *judge.Evidence) {
			e.Events = append(e.Events[:3:3], append([]judge.Event{
				event(4, another, "p4", false),
				event(5, another, "p4", true),
			}, e.Events[3:]...)...)
		}, "maximum: with workspace"},
		"late, of one that was frozen": {func(e *judge.Evidence) { late(e, 60); e.Freezes = frozen }, ""},
		"late, of nobody":              {func(e *judge.Evidence) { late(e, 60) }, "late: "},
		"late, and frozen after that": {func(e *judge.Evidence) {
			late(e, 60)
			e.Freezes = []judge.Freeze{{From: at(24), To: at(29.5)}}
		}, "late: "},
		"late, and there for too long": {func(e *judge.Evidence) { late(e, 200); e.Freezes = frozen }, "late: "},
	} {
		t.Run(what, func(t *testing.T) {
			e := innocent()
			c.do(&e)
			found := judge.Judge(e).Violations
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.True(t, strings.HasPrefix(found[0], c.want), found[0])
		})
	}
}
