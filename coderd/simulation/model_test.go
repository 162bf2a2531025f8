//go:build !race

package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// model is what was seen of the database at each commit, and what must hold of it.
type model struct {
	w    *world
	open []*tx
	// limits of what a pass may make are the most that was wanted while it was under way.
	passes map[*tx]*window

	now     state
	history int64 // the highest row that was judged
	seen    map[int64]bool
	leases  map[leaseKey]*process
	names   map[string]uuid.UUID // of resources
	ever    map[uuid.UUID]bool   // workspaces there ever were
	special map[uuid.UUID]bool   // in quarantine, and not for a failure
	// lookouts are the claims under way that will not wait.
	lookouts map[*lookout]bool
}

// state is the database at one commit.
type state struct {
	workspaces map[uuid.UUID]workspace
	claims     map[uuid.UUID]claimRow
	jobs       map[uuid.UUID]job
	presets    map[uuid.UUID]preset
	maximum    int
	broken     bool // the breaker of the provider is open
	seq        int64
	forge      map[int64]string // the forge's jobs by their number: their states
}

type workspace struct {
	id, preset, key uuid.UUID
	name, state     string
	incarnation     int32
	claim           uuid.NullUUID
	intent          bool
	expires         *time.Time
	written         uint32 // by which transaction
	fromStandby     bool   // it was claimed out of standby
	gone            bool   // known to be gone at the provider
}

type claimRow struct {
	id, preset  uuid.UUID
	state       string
	forJob      bool // of a forge
	workspace   uuid.NullUUID
	incarnation *int32
	deadline    time.Time  // of one that waits
	lease       *time.Time // when it is over; nil: there is none
}

type job struct {
	id, workspace   uuid.UUID
	kind, state, by string
	attempt         int32
	failures        int32
	due             time.Time
	force           bool
}

type preset struct {
	id, template, key uuid.UUID
	name              string
	desired           int
	ahead             time.Duration // how long before it expires a prebuild is replaced; 0: not at all
	retired           bool
	streak            int
	kept              int    // most failures that are kept for inspection
	scheduled         int    // instances in even minutes; negative: no schedule
	running           string // how many of its prebuilds run; empty: all
	queued            int    // jobs of a forge that are its demand
	most              int    // runners; 0: no limit
	quota             int    // claims at once; 0: no limit
}

type leaseKey struct {
	job     uuid.UUID
	attempt int32
}

// window is what was wanted at most since a pass began.
type window struct {
	at      time.Time // the instant that the pass goes by
	wanted  map[uuid.UUID]int
	surge   map[uuid.UUID]int           // most that renewal may add to it (C9)
	ahead   map[uuid.UUID]time.Duration // longest time before their expiry at which it does
	maximum int
	returns bool // not a pass, but something that comes back into its pool
}

type event struct {
	id          int64
	workspace   uuid.UUID
	incarnation int32
	from, to    string
	actor       uuid.UUID
	reason      string
	job         uuid.NullUUID
	attempt     *int32
}

func newModel(w *world) *model {
	return &model{
		w: w, seen: map[int64]bool{}, passes: map[*tx]*window{}, leases: map[leaseKey]*process{}, names: map[string]uuid.UUID{}, ever: map[uuid.UUID]bool{},
		special:  map[uuid.UUID]bool{},
		lookouts: map[*lookout]bool{},
		now: state{
			workspaces: map[uuid.UUID]workspace{}, claims: map[uuid.UUID]claimRow{}, jobs: map[uuid.UUID]job{},
			presets: map[uuid.UUID]preset{},
		},
	}
}

func (m *model) begun(t *tx) {
	m.open = append(m.open, t)
	if t.iso == pgx.RepeatableRead {
		m.passes[t] = newWindow(t.began)
		m.passes[t].widen(&m.now, t.began)
	}
}

func newWindow(at time.Time) *window {
	return &window{at: at, wanted: map[uuid.UUID]int{}, surge: map[uuid.UUID]int{}, ahead: map[uuid.UUID]time.Duration{}}
}

func (m *model) ended(t *tx) {
	m.open = slices.DeleteFunc(m.open, func(o *tx) bool { return o == t })
	delete(m.passes, t)
}

func (win *window) widen(s *state, now time.Time) {
	for id, p := range s.presets {
		win.wanted[id] = max(win.wanted[id], s.wanted(p, now))
		if other := p.scheduled - p.at(now); win.returns && !p.retired && other > 0 { // as the last pass saw it
			win.wanted[id] = max(win.wanted[id], s.wanted(p, now)+other)
		}
		win.ahead[id] = max(win.ahead[id], p.ahead)
		if !p.retired {
			win.surge[id] = max(win.surge[id], (max(p.desired, p.scheduled)+3)/4)
		}
	}
	if win.maximum >= 0 && s.maximum > win.maximum {
		win.maximum = s.maximum
	}
	if s.maximum == 0 {
		win.maximum = -1 // none
	}
}

// wanted is C5 from the outside: what is desired, and one for each that waits.
func (s *state) wanted(p preset, now time.Time) int {
	if p.retired {
		return 0
	}
	n := p.at(now) + p.queued
	for _, c := range s.claims {
		if c.preset == p.id && c.deadline.After(now) {
			n++
		}
	}
	return n
}

// at is what a preset desires at a time: its schedule applies in even minutes (C9).
func (p preset) at(now time.Time) int {
	if p.scheduled >= 0 && now.UTC().Minute()%2 == 0 {
		return p.scheduled
	}
	return p.desired
}

// judge looks at the outcome of a single statement: which errors there may be.
func (m *model) judge(c *call, a answer) {
	if c.name == "WorkOn" && a.err == nil {
		m.w.worksOn()
	}
	if c.name == "ClaimLost" && a.err == nil {
		m.w.fired(row("claimed", "claimed", "silent, unhealthy or missing"))
	}
	var pg *pgconn.PgError
	if !errors.As(a.err, &pg) {
		return
	}
	switch pg.Code {
	case "40001":
		m.w.fired("40001 of its own")
		if c.name != "AdvanceFence" {
			m.w.violate("C2", "%s of %s failed with 40001 outside of the fence: %s", c.name, c.p.name, pg.Message)
		}
	case "40P01":
		m.w.violate("order of locks", "%s of %s ran into a deadlock: %s", c.name, c.p.name, pg.Detail)
	case "23505":
		if pg.ConstraintName != "claims_key" {
			m.w.violate("I1", "%s of %s was refused by %s: %s", c.name, c.p.name, pg.ConstraintName, pg.Detail)
		}
	case "25P02", "57014", "57P01", "55P03": // after another error, or ended on purpose
	default:
		m.w.violate("errors", "%s of %s failed with %s: %s", c.name, c.p.name, pg.Code, pg.Message)
	}
}

const (
	selectWorkspaces = `SELECT w.id, w.preset_id, w.pool_key, w.name, w.state::text, w.incarnation, w.claim_id,
		(i.workspace_id IS NOT NULL), w.expires_at, w.xmin::text::bigint,
		EXISTS (SELECT FROM claims c WHERE c.id = w.claim_id AND c.from_standby),
		w.gone_at IS NOT NULL AND w.state IN ('claimed', 'quarantined', 'draining', 'deleting') FROM workspaces w
		LEFT JOIN intents i ON i.workspace_id = w.id AND i.incarnation = w.incarnation WHERE w.state <> 'deleted'`
	selectClaims = `SELECT id, preset_id, state::text, user_id = '00000000-0000-4000-8000-000000000003', workspace_id, incarnation,
		CASE WHEN state = 'waiting' THEN deadline_at ELSE 'epoch' END, lease_until FROM claims`
	selectJobs = `SELECT id, workspace_id, kind::text, state::text, leased_by, attempt, failures, due_at, force
		FROM jobs
		WHERE state IN ('pending', 'running')`
	selectPresets = `SELECT p.id, p.template_id, p.pool_key, t.name, coalesce(p.instances, 0),
		coalesce(least(p.ttl_s / 10.0, t.boot_timeout_s), 0)::double precision,
		p.deleted_at IS NOT NULL OR t.deleted_at IS NOT NULL OR t.deprecated_at IS NOT NULL, coalesce(f.streak, 0), t.keep_failures,
		coalesce((p.schedule -> 'ranges' -> 0 ->> 'instances')::int, -1), coalesce(p.standby_running, ''),
		(SELECT count(*) FROM forge_jobs j WHERE j.state = 'queued' AND j.preset_id = p.id), coalesce(p.runner_maximum, 0),
		coalesce(t.max_claimed, 0)
		FROM presets p JOIN templates t ON t.id = p.template_id
		LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key`
	selectRest = `SELECT (SELECT maximum FROM providers WHERE name = 'sim'), (SELECT seq FROM reconcile_fence),
		EXISTS (SELECT FROM inventories WHERE opened_at IS NOT NULL)`
	selectHistory = `SELECT id, workspace_id, incarnation, coalesce(from_state::text, ''), to_state::text, actor_id, reason,
		job_id, attempt FROM workspace_history WHERE id > $1 ORDER BY id`
)

// look reads the database after a commit and checks what must hold.
func (m *model) look(c *call) {
	var next state
	var events []event
	var err error
	m.w.pg.outside(func() { next, events, err = m.w.pg.snapshot(m.history - 100) })
	if err != nil {
		m.w.violate("model", "read the database: %v", err)
		return
	}
	before := m.now
	m.now = next
	var window *window
	if c.tx != nil {
		window = m.passes[c.tx]
	}
	var fresh []event
	for _, e := range events {
		if m.seen[e.id] { // numbers are given before the commit, so later commits may have lower ones
			continue
		}
		m.seen[e.id] = true
		earlier := fresh
		fresh = append(fresh, e)
		m.history = max(m.history, e.id)
		m.w.note("  %s: %s -> %s: %s", m.nameOf(e.workspace, before), e.from, e.to, reasonOf(e))
		m.w.fired(m.rowOf(e))
		m.transition(before, earlier, e)
		if e.from == "" && e.to == "provisioning" && window == nil {
			m.w.violate("I3", "%s of %s made a workspace outside of a pass", c.name, c.p.name)
		}
	}
	m.unrecorded(c, before, fresh)
	m.narrow()
	m.leasesHeld(c, before)
	m.resources()
	m.claimsKept()
	m.onTerms(before)
	m.setAside(fresh)
	m.regretted(fresh)
	m.lastJob(fresh)
	m.quarantines(fresh)
	m.untouched()
	m.failed(before)
	if m.now.broken && !before.broken {
		m.w.fired("breaker open")
	}
	m.scheduled(fresh)
	m.grown(before)
	if c.tx != nil && c.tx.intent != nil {
		m.intended(*c.tx.intent, fresh)
	}
	if window != nil {
		m.capped(window, fresh)
	}
	for t, win := range m.passes {
		win.widen(&m.now, t.began) // what a pass goes by, however late it reads
	}
}

// nameOf is the template of a workspace.
func (m *model) nameOf(id uuid.UUID, before state) string {
	ws, ok := m.now.workspaces[id]
	if !ok {
		ws = before.workspaces[id]
	}
	return m.now.presets[ws.preset].name
}

// reasonOf leaves ids and spans of time out of the trace.
func reasonOf(e event) string {
	if len(e.reason) > 24 {
		return e.reason[:24]
	}
	return e.reason
}

func (p *postgres) snapshot(after int64) (s state, events []event, err error) {
	s = state{
		workspaces: map[uuid.UUID]workspace{}, claims: map[uuid.UUID]claimRow{}, jobs: map[uuid.UUID]job{},
		presets: map[uuid.UUID]preset{}, forge: map[int64]string{},
	}
	ctx := context.Background()
	batch := &pgx.Batch{} // one view: what waited for a lock may go on meanwhile
	batch.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	batch.Queue(selectWorkspaces).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var w workspace
			if err := rows.Scan(&w.id, &w.preset, &w.key, &w.name, &w.state, &w.incarnation, &w.claim, &w.intent,
				&w.expires, &w.written, &w.fromStandby, &w.gone); err != nil {
				return err
			}
			s.workspaces[w.id] = w
		}
		return rows.Err()
	})
	batch.Queue(selectClaims).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var c claimRow
			if err := rows.Scan(&c.id, &c.preset, &c.state, &c.forJob, &c.workspace, &c.incarnation, &c.deadline, &c.lease); err != nil {
				return err
			}
			s.claims[c.id] = c
		}
		return rows.Err()
	})
	batch.Queue(selectJobs).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var j job
			if err := rows.Scan(&j.id, &j.workspace, &j.kind, &j.state, &j.by, &j.attempt, &j.failures, &j.due, &j.force); err != nil {
				return err
			}
			s.jobs[j.id] = j
		}
		return rows.Err()
	})
	batch.Queue(selectPresets).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var p preset
			var ahead float64 // seconds
			if err := rows.Scan(&p.id, &p.template, &p.key, &p.name, &p.desired, &ahead, &p.retired, &p.streak,
				&p.kept, &p.scheduled, &p.running, &p.queued, &p.most, &p.quota); err != nil {
				return err
			}
			p.ahead = time.Duration(ahead * float64(time.Second))
			s.presets[p.id] = p
		}
		return rows.Err()
	})
	batch.Queue("SELECT job_id, state::text FROM forge_jobs").Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id int64
			var state string
			if err := rows.Scan(&id, &state); err != nil {
				return err
			}
			s.forge[id] = state
		}
		return rows.Err()
	})
	batch.Queue(selectRest).QueryRow(func(row pgx.Row) error { return row.Scan(&s.maximum, &s.seq, &s.broken) })
	batch.Queue(selectHistory, after).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var e event
			if err := rows.Scan(&e.id, &e.workspace, &e.incarnation, &e.from, &e.to, &e.actor, &e.reason, &e.job,
				&e.attempt); err != nil {
				return err
			}
			events = append(events, e)
		}
		return rows.Err()
	})
	batch.Queue("COMMIT")
	return s, events, p.admin.SendBatch(ctx, batch).Close()
}

// made is told of a resource at the provider.
func (w *world) made(req provider.CreateRequest, inst provider.Instance) {
	if other, ok := w.model.names[req.Name]; ok && other != req.Tags.WorkspaceID {
		w.violate("I1", "name %s was used for two workspaces", req.Name)
	}
	w.model.names[req.Name] = req.Tags.WorkspaceID
	w.enliven(req, inst)
}

// deletes is told of a resource that is about to go at the provider (I2).
func (w *world) deletes(p *process, ref provider.Ref) {
	ws, ok := w.model.now.workspaces[ref.WorkspaceID]
	if ok && ws.state == string(prebuilds.Claimed) {
		w.violate("I2", "%s deletes %s at the provider, which is claimed", p.name, ref.Name)
	}
	switch {
	case ok:
	case ref.ProviderID != "":
		w.fired("orphan swept")
		if w.model.ever[ref.WorkspaceID] {
			w.fired(row("deleted", "deleted", "tagged resource seen"))
		}
	default:
		w.fired("late create removed by its worker")
	}
	if w.planted(ref.Name) && !w.back.mayGo(ref.Name) {
		w.violate("S6", "%s deletes %s, which was made when no replica was at work", p.name, ref.Name)
	}
	w.busyDeleted(p, ref)
	delete(w.agents, ref.WorkspaceID)
}
