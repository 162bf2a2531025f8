package templates

import (
	"time"

	"github.com/goccy/go-yaml/ast"
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
		d.durationInto(&c.Lease, "lease", maxClaimLease),
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
