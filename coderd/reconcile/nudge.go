package reconcile

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// nudged is when a template was nudged, on the database's clock; zero for a nudge from this process, which only a pass of
// this process serves for certain.
type nudged time.Time

// notice is a nudge on the wire (queries/reconcile/reconcile.sql, PublishNudges).
type notice struct {
	From     string    `json:"from"`
	Template uuid.UUID `json:"template"`
	AtUS     int64     `json:"at_us"`
	Trace    string    `json:"trace,omitempty"` // W3C traceparent; empty: none
}

// Nudge asks for a pass over these templates now. It never blocks and is never lost within the process; call it after
// the commit of what the pass is to see.
func (r *Reconciler) Nudge(templates ...uuid.UUID) {
	r.mu.Lock()
	for _, t := range templates {
		r.nudges[t] = nudged{}
		r.unpublished[t] = struct{}{}
	}
	r.mu.Unlock()
	r.wake.Ring()
	r.publish.Ring()
}

// refillAfter is how long a pass after hits may wait. A workspace that was just claimed is used at once, by its first command:
// the pass and what it creates would compete with it. It also lets one pass serve many hits.
const refillAfter = 50 * time.Millisecond

// Refill asks for a pass over the template within refillAfter. Nobody waits for it: what someone waits for is nudged.
func (r *Reconciler) Refill(template uuid.UUID) {
	r.mu.Lock()
	first := len(r.refills) == 0
	if _, pending := r.refills[template]; !pending {
		r.refills[template] = r.Clock.Now("reconcile", "refill").Add(refillAfter)
	}
	r.mu.Unlock()
	if first { // the loop sets its timer; those that come later are due later
		r.wake.Ring()
	}
}

// Heard takes a nudge that another replica published.
func (r *Reconciler) Heard(payload string) {
	var n notice
	if err := json.Unmarshal([]byte(payload), &n); err != nil || n.From == r.Replica {
		return
	}
	r.mu.Lock()
	r.addCause(cause{n.Template, true, tracing.Parse(n.Trace)})
	if at, pending := r.nudges[n.Template]; !pending || !time.Time(at).IsZero() {
		r.nudges[n.Template] = nudged(time.UnixMicro(n.AtUS))
	}
	r.mu.Unlock()
	r.wake.Ring()
}

// Missed asks for a full pass, because notifications may have been lost (I9). They were heard again just now, so the
// database answers: a pass that failed is tried again at once.
func (r *Reconciler) Missed() {
	r.tickNow()
	r.answers.Ring()
}

// tickNow makes the next pass a full one.
func (r *Reconciler) tickNow() {
	r.mu.Lock()
	r.ticked = true
	r.mu.Unlock()
	r.wake.Ring()
}

// takeNudges hands over all that is pending; giveBack returns what was not served.
func (r *Reconciler) takeNudges() map[uuid.UUID]nudged {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.nudges
	r.nudges = map[uuid.UUID]nudged{}
	for t, at := range taken {
		if time.Time(at).IsZero() { // its pass is certain, and begins after the hits
			delete(r.refills, t)
		}
	}
	return taken
}

func (r *Reconciler) giveBack(taken map[uuid.UUID]nudged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, at := range taken {
		// A nudge from here is not replaced by one from elsewhere, which a pass begun before it may have served.
		if _, newer := r.nudges[t]; !newer || time.Time(at).IsZero() {
			r.nudges[t] = at
		}
	}
}

// unserved drops the nudges that a pass begun after them has served, here or on another replica.
func (r *Reconciler) unserved(ctx context.Context, taken map[uuid.UUID]nudged) ([]uuid.UUID, error) {
	var ask, templates []uuid.UUID
	for _, t := range sorted(slices.Collect(maps.Keys(taken))) {
		if time.Time(taken[t]).IsZero() {
			templates = append(templates, t)
		} else {
			ask = append(ask, t)
		}
	}
	if len(ask) > 0 {
		passes, err := reconciledb.New(r.Store).PassesOf(ctx, ask)
		if err != nil {
			return nil, xerrors.Errorf("read passes: %w", err)
		}
		began := lists.Keyed(passes, func(p reconciledb.PassesOfRow) (uuid.UUID, time.Time) { return p.TemplateID, p.BeganAt })
		for _, t := range ask {
			if !began[t].After(time.Time(taken[t])) {
				templates = append(templates, t)
			}
		}
	}
	return sorted(templates), nil
}

// sorted puts templates in an order that is always the same. Any serves all of them in one pass; this makes passes
// comparable.
func sorted(templates []uuid.UUID) []uuid.UUID {
	slices.SortFunc(templates, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return templates
}

// publishNudges tells the other replicas, many nudges at a time. A failure costs nothing but time: this process serves
// them anyway, and the tick covers the rest.
func (r *Reconciler) publishNudges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.publish:
		}
		r.mu.Lock()
		arg := reconciledb.PublishNudgesParams{Sender: r.Replica}
		for _, t := range sorted(slices.Collect(maps.Keys(r.unpublished))) {
			arg.TemplateIds = append(arg.TemplateIds, t)
			arg.Traces = append(arg.Traces, r.traces[t])
			delete(r.traces, t)
		}
		clear(r.unpublished)
		r.mu.Unlock()
		if len(arg.TemplateIds) == 0 {
			continue
		}
		if err := reconciledb.New(r.Store).PublishNudges(ctx, arg); err != nil && ctx.Err() == nil {
			r.Log.Debug(ctx, "publish nudges", slog.Error(err))
		}
	}
}
