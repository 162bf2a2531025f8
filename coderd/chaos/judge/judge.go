package judge

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Verdict is what came out.
type Verdict struct {
	Violations []string
	Claimed    int // claims that were told a workspace
	Missed     int
	Released   int
	Most       int // most resources at the provider at a time
	Late       int // creates that took effect after their workspace was deleted
	LongestLate,
	LongestOutage, // the longest time without an answer to any claim, while clients asked
	LongestWait time.Duration // of one client, from its first question to its answer
	OutageFrom time.Time
}

// Judge goes through the evidence.
func Judge(e Evidence) Verdict {
	j := &judge{Evidence: e, holder: map[uuid.UUID]*Claim{}}
	j.claims()
	j.resources()
	j.end()
	j.availability()
	return j.Verdict
}

type judge struct {
	Evidence
	Verdict
	holder map[uuid.UUID]*Claim // by workspace
}

func (j *judge) wrong(format string, args ...any) {
	j.Violations = append(j.Violations, fmt.Sprintf(format, args...))
}

// claims: nobody was told what another was, and what was told still holds.
func (j *judge) claims() {
	for i := range j.Claims {
		c := &j.Claims[i]
		switch {
		case c.Answered.IsZero():
			j.wrong("unanswered: claim %s was never answered", c.Key)
			continue
		case len(c.Workspaces) == 0:
			j.Missed++
			continue
		}
		j.Claimed++
		id := c.Workspaces[0]
		for _, other := range c.Workspaces[1:] {
			if other != id {
				j.wrong("twice: claim %s was told workspace %s and then %s", c.Key, id, other)
			}
		}
		if other, taken := j.holder[id]; taken {
			j.wrong("twice: workspace %s was given to claim %s and to claim %s", id, other.Key, c.Key)
			continue
		}
		j.holder[id] = c
		w := j.Workspaces[id]
		switch {
		case c.ReleaseAsked.IsZero():
			if w.State != "claimed" || w.ClaimID != c.ClaimID {
				j.wrong("lost: workspace %s of claim %s is %q, of claim %s", id, c.Key, w.State, w.ClaimID)
			}
		case c.ReleaseAnswered.IsZero():
			j.wrong("unanswered: the release of workspace %s was never answered", id)
		default:
			j.Released++
			if w.State != "deleted" {
				j.wrong("lost: workspace %s was released and is %q", id, w.State)
			}
		}
	}
}

// end: the provider has what the installation has, and clients know of every claim.
func (j *judge) end() {
	has := map[uuid.UUID]int{}
	for providerID, id := range j.Left {
		has[id]++
		if w, known := j.Workspaces[id]; !known || !w.DeletedAt.IsZero() || w.State == "deleted" {
			j.wrong("leak: resource %s of workspace %s is left, which is %q", providerID, id, w.State)
		}
	}
	for id, w := range j.Workspaces {
		if w.State == "claimed" && j.holder[id] == nil {
			j.wrong("unknown: workspace %s is claimed by claim %s, of which no client was told", id, w.ClaimID)
		}
		if (w.State == "claimed" || w.State == "ready") && has[id] != 1 {
			j.wrong("leak: workspace %s is %s and has %d resources", id, w.State, has[id])
		}
	}
	if j.Maximum > 0 && j.Crowd > j.Maximum {
		j.wrong("maximum: the installation itself counted %d workspaces, the maximum is %d", j.Crowd, j.Maximum)
	}
}
