//go:build !race

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// terms are what claims are bound to in some seeds: they last for a time only, come several at once, or are counted.
type terms struct {
	most  int       // claims of template a at once; 0: any number
	lower time.Time // until when a claim may go by the quota before, which it has read
	old   int       // that quota
	until map[uuid.UUID]time.Time
	keys  map[string]int // how many were claimed with a key
}

const onTerms = "claims on terms"

// agree gives some seeds claims with terms; PREWARM_SIM_TERMS says to one in how many.
func (w *world) agree(a *templateConfig) {
	d := w.random("terms")
	if d.IntN(number("PREWARM_SIM_TERMS", 3)) > 0 || w.without[onTerms] {
		return
	}
	w.terms = &terms{until: map[uuid.UUID]time.Time{}, keys: map[string]int{}}
	if d.IntN(2) == 0 {
		w.terms.most = 3 + d.IntN(3)
		a.most = w.terms.most
	}
}

var termsHappen = []happening{
	{"claim with a lease", 10, func(w *world, p *process) bool {
		d := w.dice("lease")
		if !w.anyReady() && d.IntN(4) > 0 {
			return false
		}
		wait := time.Duration(d.IntN(2)*d.IntN(6000)) * time.Millisecond
		return w.claimOn(p, claim.Request{Lease: time.Duration(1+d.IntN(6)) * time.Second, Wait: wait}, w.key(d.IntN(3) == 0))
	}},
	{"renew a lease", 4, func(w *world, p *process) bool { return w.renew(p) }},
	{"claim of several", 6, func(w *world, p *process) bool {
		d := w.dice("several")
		if !w.anyReady() && d.IntN(4) > 0 {
			return false
		}
		req := claim.Request{Count: 2 + d.IntN(2), Wait: time.Duration(d.IntN(2)*d.IntN(9000)) * time.Millisecond}
		if d.IntN(3) == 0 {
			req.Lease = time.Duration(1+d.IntN(6)) * time.Second
		}
		key := ""
		if d.IntN(2) == 0 {
			key = fmt.Sprint("several-", len(w.terms.keys))
			w.terms.keys[key] = req.Count
		}
		return w.claimOn(p, req, key)
	}},
	{"claim of several again with a key", 3, func(w *world, p *process) bool {
		if len(w.terms.keys) == 0 {
			return false
		}
		key := fmt.Sprint("several-", w.dice("several again").IntN(len(w.terms.keys)))
		return w.claimOn(p, claim.Request{Count: w.terms.keys[key], Wait: 2 * time.Second}, key)
	}},
	{"claims at once under a quota", 3, func(w *world, _ *process) (asked bool) {
		if w.terms.most == 0 {
			return false
		}
		for _, p := range slices.Clone(w.processes) {
			asked = p.up() && w.claimOn(p, claim.Request{Count: 2, Wait: 2 * time.Second}, "") || asked
		}
		return asked
	}},
	{"other quota", 2, func(w *world, p *process) bool {
		t := w.people.config.templates["a"]
		if t.most == 0 {
			return false
		}
		t.most = 2 + w.dice("quota").IntN(4)
		w.people.config.templates["a"] = t
		w.apply(p)
		return true
	}},
}

// claimOn is one client that wants workspaces of template a, on terms. It says whether there is such a template.
func (w *world) claimOn(p *process, req claim.Request, key string) bool {
	id, ok := w.presetOf("a")
	if !ok {
		return false
	}
	req.UserID, req.Source, req.OrganizationID, req.PresetID, req.Key = w.owner, "sim", auth.DefaultOrganizationID, id, key
	req.Mode = database.ClaimModePrefer
	if req.Wait == 0 {
		req.Mode = database.ClaimModeRequire
	}
	var res claim.Result
	w.ask(p, func(ctx context.Context) (err error) {
		res, err = p.Claims.Claim(ctx, req)
		return err
	}, func(err error) {
		outcome := string(res.Outcome)
		if full := (*claim.QuotaExceeded)(nil); errors.As(err, &full) {
			outcome = "quota exceeded"
		} else if err != nil {
			outcome = "error"
		}
		w.note("%s answers a claim on terms: %s", p.name, outcome)
		w.fired("claim on terms: " + outcome)
		if err == nil && w.model.now.claims[res.ClaimID].state == "waiting" {
			w.violate("claims", "claim %s was answered, and waits", short(res.ClaimID))
		}
		if err != nil || res.Workspace == nil {
			return
		}
		if req.Count > 1 && len(res.Together) != req.Count {
			w.violate("claims", "%d workspaces were asked for together, and %d given", req.Count, len(res.Together))
		}
		if req.Count <= 1 {
			w.holdUntil(res, res.ClaimID, *res.Workspace, key)
		}
		first := res.LeaseUntil
		for i, one := range res.Together {
			if i > 0 {
				key = ""
			}
			if one.LeaseUntil != nil && (first == nil || one.LeaseUntil.Before(*first)) {
				w.violate("I7", "claim %s ends at %s, and the answer for several says %s", short(one.ClaimID), one.LeaseUntil, first)
			}
			res.LeaseUntil = one.LeaseUntil
			w.holdUntil(res, one.ClaimID, one.Workspace, key)
		}
	})
	return true
}

// holdUntil is a client that was told of its workspace, and perhaps until when it has it.
func (w *world) holdUntil(res claim.Result, id uuid.UUID, ws database.Workspace, key string) {
	if c := w.model.now.claims[id]; c.lease != nil && c.state != "bound" && w.overFor(c) {
		return // the answer took longer than the lease
	}
	res.ClaimID, res.Workspace = id, &ws
	w.hold(res, key)
	if res.LeaseUntil != nil {
		w.terms.until[id] = later(w.terms.until[id], *res.LeaseUntil)
	}
}

// renew has a client go on with a lease, which may be over by the time that its request arrives.
func (w *world) renew(p *process) bool {
	var list []told
	for _, t := range w.held() {
		if !w.terms.until[t.claim].IsZero() {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return false
	}
	t := list[w.dice("renew").IntN(len(list))]
	var until *time.Time
	w.ask(p, func(ctx context.Context) (err error) {
		until, err = workspaces.RenewLease(ctx, p.store, workspaces.RenewLeaseParams{ClaimID: t.claim})
		return err
	}, func(err error) {
		w.note("%s answers a renewal: %s", p.name, outcomeOf(err))
		w.fired("renewal: " + outcomeOf(err))
		if err == nil && until != nil {
			w.terms.until[t.claim] = later(w.terms.until[t.claim], *until)
		}
	})
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lapsed judges a claim that Prewarm ended because its lease was over: it was, by the row and by all that was confirmed to its
// client (I2, I7).
func (m *model) lapsed(before state, over life) {
	for id, c := range before.claims {
		if c.workspace.UUID != over.workspace || c.incarnation == nil || *c.incarnation != over.incarnation {
			continue
		}
		switch {
		case c.lease == nil:
			m.w.violate("I2", "claim %s has no lease, and was ended for its lease", short(id))
		case c.lease.After(m.w.now()):
			m.w.violate("I2", "claim %s was ended %s before its lease was over", short(id), c.lease.Sub(m.w.now()))
		}
		m.w.fired("lease over")
		m.w.people.asked[over] = true // its client knows that it ends
	}
}

// overFor says whether the lease of a claim is over, as the database's clock may have shown it before it was set back.
func (w *world) overFor(c claimRow) bool { return !c.lease.After(w.now().Add(4 * time.Second)) }

// onTerms: a lease that was confirmed to a client is in its row (I7), and no claim is made above a quota.
func (m *model) onTerms(before state) {
	if m.w.terms == nil {
		return
	}
	for id, until := range m.w.terms.until {
		t, held := m.w.people.told[id]
		if c := m.now.claims[id]; held && !m.w.people.asked[t.life] && (c.lease == nil || c.lease.Before(until)) {
			m.w.violate("I7", "claim %s was renewed until %s, and its row says %v", short(id), until, c.lease)
		}
	}
	counted := map[uuid.UUID]int{}
	fresh := map[uuid.UUID]bool{}
	for id, c := range m.now.claims {
		if c.state != "bound" && !c.deadline.After(m.w.now()) {
			continue
		}
		counted[c.preset]++
		if _, known := before.claims[id]; !known {
			fresh[c.preset] = true
		}
	}
	for id, p := range m.now.presets {
		if then, known := before.presets[id]; known && (then.quota > p.quota || then.quota == 0 && p.quota > 0) {
			q := then.quota
			if q == 0 {
				q = math.MaxInt
			}
			m.w.terms.lower, m.w.terms.old = time.Now().Add(time.Minute), q
		}
		if p.quota == 0 || !fresh[id] || m.w.setBack || time.Now().Before(m.w.terms.lower) && counted[id] <= m.w.terms.old {
			continue
		}
		if counted[id] > p.quota {
			m.w.violate("quota", "%s has %d claims, and its quota is %d", p.name, counted[id], p.quota)
		}
	}
}
