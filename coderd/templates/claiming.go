package templates

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/database"
)

// maxClaimLease ends what everybody has forgotten.
const maxClaimLease = 365 * 24 * time.Hour

// Claiming is what holds for claims of a template's workspaces.
type Claiming struct {
	Lease      time.Duration // whole seconds, of claims that ask for none; 0: they have none
	Max        *int32        // workspaces that may be claimed at once; nil: any number
	MaxPerUser *int32        // the same, by one user

	maxAt, perUserAt Pos
}

func (d decoder) claims(n ast.Node) Claiming {
	var c Claiming
	d.object(n, "claims",
		setting{key: "lease", read: func(n ast.Node) { c.Lease = d.duration(n, "lease", maxClaimLease) }},
		setting{key: "maximum", read: func(n ast.Node) {
			c.Max, c.maxAt = d.quota(n, "maximum of claims"), position(n)
		}},
		setting{key: "maximum_per_user", read: func(n ast.Node) {
			c.MaxPerUser, c.perUserAt = d.quota(n, "maximum_per_user"), position(n)
		}})
	if c.Max != nil && c.MaxPerUser != nil && *c.MaxPerUser > *c.Max {
		d.problems.add(c.perUserAt, "maximum_per_user is %d, but maximum is %d for all users together: nobody could ever have "+
			"as many", *c.MaxPerUser, *c.Max)
	}
	return c
}

func (d decoder) quota(n ast.Node, what string) *int32 {
	before := len(d.problems.List)
	limit := d.integer(n, what, 1, maxLimit, ": leave it out for no limit; to end all claims, deprecate the template")
	if len(d.problems.List) > before {
		return nil
	}
	return &limit
}

// checkQuota notes pools that keep more ready than may ever be claimed.
func (d decoder) checkQuota(t *Template) {
	limit := t.Claims.Max
	if limit == nil {
		return
	}
	for _, p := range t.Presets {
		if p.Runner == nil && p.Prebuilds != nil && p.Prebuilds.Instances > *limit {
			d.problems.add(t.Claims.maxAt, "quota exceeded: preset %s keeps %d instances ready, but maximum of claims is %d: more "+
				"than that can never be claimed at once", p.Name, p.Prebuilds.Instances, *limit)
		}
	}
}

// claimingState is what a template's row says of claims, for comparison and for the record; left out where it says
// nothing, so that records from before compare equal.
type claimingState struct {
	ClaimLease        string `json:"claim_lease,omitempty"`
	MaxClaimed        int32  `json:"max_claimed,omitempty"`
	MaxClaimedPerUser int32  `json:"max_claimed_per_user,omitempty"`
}

func (t Template) claiming() claimingState {
	return claimingState{shownDuration(seconds(t.Claims.Lease)), orZero(t.Claims.Max), orZero(t.Claims.MaxPerUser)}
}

func claimingOf(row *database.Template) claimingState {
	return claimingState{shownDuration(orZero(row.ClaimLeaseS)), orZero(row.MaxClaimed), orZero(row.MaxClaimedPerUser)}
}

func claimingFields(old, fresh claimingState) []string {
	return fields(
		field{"claims.lease", old.ClaimLease, fresh.ClaimLease},
		field{"claims.maximum", old.MaxClaimed, fresh.MaxClaimed},
		field{"claims.maximum_per_user", old.MaxClaimedPerUser, fresh.MaxClaimedPerUser},
	)
}

// leaseOf is null for none.
func (t Template) leaseOf() *int32 {
	if t.Claims.Lease == 0 {
		return nil
	}
	s := seconds(t.Claims.Lease)
	return &s
}

func shownDuration(s int32) string {
	if s == 0 {
		return ""
	}
	return (time.Duration(s) * time.Second).String()
}

func orZero(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
