//go:build !race

package simulation

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

// Demand: the jobs of a forge, which some seeds have. Its webhooks come late, twice, in any order, or not at all; its runners
// take whichever job they are given.

// phonebook is what a process has for a directory of entities.
type phonebook struct {
	p   *process
	hub *hub
}

var _ inbox.Directory = phonebook{}

func (b phonebook) entity() inbox.Entity {
	return inbox.Entity{
		ID: hubEntityID, OrganizationID: auth.DefaultOrganizationID, Name: hubEntity, Kind: hubKind{}, KindName: "github",
		ForgeURL: hubURL, Scope: forge.Organization, Path: hubPath, Secrets: []string{hubSecret},
	}
}

func (b phonebook) ByName(context.Context, string) (inbox.Entity, error)  { return b.entity(), nil }
func (b phonebook) ByID(context.Context, uuid.UUID) (inbox.Entity, error) { return b.entity(), nil }
func (b phonebook) Forge(context.Context, uuid.UUID) (forge.Forge, error) {
	return office(b), nil
}

// connect gives some seeds a forge, and a template of runners for it; PREWARM_SIM_FORGE says to one in how many.
func (w *world) connect() {
	if w.random("forge").IntN(number("PREWARM_SIM_FORGE", 3)) > 0 || w.without["forge"] {
		return
	}
	w.hub = newHub(w)
	w.pg.outside(func() {
		ctx := context.Background()
		_, err := w.pg.admin.Exec(ctx, `INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret,
			sealed_by, created_at, updated_at) VALUES ($1, $2, $3, 'github', $4, 'token', '\x00', 'none', now(), now())`,
			hubEntityID, auth.DefaultOrganizationID, hubEntity, hubURL)
		if err == nil {
			_, err = w.pg.admin.Exec(ctx, `INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id,
				webhook_secret, sealed_by, hook_id, created_at, updated_at)
				VALUES ($1, $2, $3, 'organization', $4, $1, '\x00', 'none', $5, now(), now())`,
				hubEntityID, auth.DefaultOrganizationID, hubEntity, hubPath, hubHookID)
		}
		if err != nil {
			w.violate("simulation", "connect the forge: %v", err)
		}
	})
	w.people.config.templates[runnersOf] = templateConfig{
		version: 1, instances: 1 + w.random("idle runners").IntN(3), agent: true, runner: true,
	}
}

// hubPace is fast, for a seed's time.
var hubPace = runners.Pace{
	Idle: 6 * time.Second, Awaited: 3 * time.Second, Fresh: time.Second, Backoff: 4 * time.Second, Settle: 5 * time.Second,
}

// deregister is what a drain asks.
func (p *process) deregister(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (provider.Verdict, error) {
	v, err := p.Runners.Deregister(ctx, workspaceID, incarnation)
	if v.Busy {
		p.w.fired("busy veto")
		p.w.fired(row("draining", "draining", "busy veto"))
	}
	return v, err
}

// webhook posts one of the hub's deliveries to a process, whichever it is; while there are faults, in any order.
func (w *world) webhook(p *process) bool {
	if w.hub == nil || len(w.hub.mail) == 0 || p == nil {
		return false
	}
	i := 0
	if !w.calm {
		i = w.dice("delivery").IntN(len(w.hub.mail))
	}
	d := w.hub.mail[i]
	w.hub.mail = slices.Delete(w.hub.mail, i, i+1)
	mac := hmac.New(sha256.New, []byte(hubSecret))
	mac.Write(d.body)
	header := http.Header{}
	header.Set("X-Hub-Delivery", d.guid)
	header.Set("X-Hub-Signature", string(mac.Sum(nil)))
	w.ask(p, func(ctx context.Context) error {
		_, err := p.Inbox.Accept(ctx, hubEntity, header, d.body)
		return err
	}, func(err error) { w.note("%s answers a webhook: %s", p.name, outcomeOf(err)) })
	return true
}

var jobsHappen = []happening{
	{"job", 14, func(w *world, _ *process) bool {
		if w.hub == nil || len(w.hub.in(forge.Queued)) > 5 {
			return false
		}
		for range 1 + w.dice("jobs").IntN(3) {
			w.hub.queue()
		}
		return true
	}},
	{"new version of runners", 4, func(w *world, p *process) bool {
		if w.hub == nil {
			return false
		}
		w.renewRunners(p)
		return true
	}},
	{"webhook", 40, func(w *world, p *process) bool { return w.webhook(p) }},
	{"job begins", 30, func(w *world, _ *process) bool {
		if w.hub == nil {
			return false
		}
		queued, idle := w.hub.in(forge.Queued), w.hub.idle()
		if len(queued) == 0 || len(idle) == 0 {
			return false
		}
		d := w.dice("begins")
		w.hub.take(queued[d.IntN(len(queued))], idle[d.IntN(len(idle))])
		return true
	}},
	{"job ends", 16, func(w *world, _ *process) bool {
		if w.hub == nil {
			return false
		}
		running := w.hub.in(forge.InProgress)
		if len(running) == 0 {
			return false
		}
		w.hub.finish(running[w.dice("ends").IntN(len(running))], "success")
		return true
	}},
	{"job is cancelled", 2, func(w *world, _ *process) bool {
		if w.hub == nil {
			return false
		}
		queued := w.hub.in(forge.Queued)
		if len(queued) == 0 {
			return false
		}
		w.hub.finish(queued[w.dice("cancel").IntN(len(queued))], "cancelled")
		return true
	}},
}

// workOff is the hub without people: jobs begin when there is a runner, end soon after, and every delivery comes.
func (w *world) workOff() {
	if w.hub == nil {
		return
	}
	for _, j := range w.hub.in(forge.InProgress) {
		if time.Since(j.took) >= hubTakes {
			w.hub.finish(j, "success")
		}
	}
	for _, j := range w.hub.in(forge.Queued) {
		if idle := w.hub.idle(); len(idle) > 0 {
			w.hub.take(j, idle[0])
		}
	}
	if p := w.any("webhook"); p != nil {
		w.webhook(p)
	}
}

func (w *world) renewRunners(p *process) {
	t := w.people.config.templates[runnersOf]
	t.version++
	w.people.config.templates[runnersOf] = t
	w.apply(p)
}

// lastJob has the forge give a job to a runner that has just been told to go, as half of the time happens.
func (m *model) lastJob(events []event) {
	if m.w.hub == nil || m.w.calm && time.Now().After(m.w.lastJobs) {
		return
	}
	for _, e := range events {
		r := m.w.hub.runners[m.now.workspaces[e.workspace].name]
		if e.to != "draining" || r == nil || r.status() != forge.Idle || m.w.dice("last job").IntN(2) == 0 {
			continue
		}
		if len(m.w.hub.in(forge.Queued)) == 0 {
			m.w.hub.queue()
		}
		m.w.note("* a runner that is to go is given a job")
		m.w.fired("runner that is to go is given a job")
		m.w.hub.take(m.w.hub.in(forge.Queued)[0], r)
	}
}

// jobsLeft says what of the forge's jobs is not over.
func (w *world) jobsLeft() []string {
	if w.hub == nil {
		return nil
	}
	var why []string
	for _, state := range []forge.JobState{forge.Queued, forge.InProgress} {
		if n := len(w.hub.in(state)); n > 0 {
			why = append(why, fmt.Sprintf("the forge has %d jobs %s", n, state))
		}
	}
	if len(w.hub.mail) > 0 {
		why = append(why, "a webhook is on its way")
	}
	live := map[string]bool{}
	for _, ws := range w.model.now.workspaces {
		live[ws.name] = true
	}
	for name, r := range w.hub.runners {
		if !live[name] && !r.late { // those are found when they have been offline for long
			why = append(why, "the forge has a runner of a deleted workspace")
		}
	}
	for _, j := range w.hub.jobs {
		if known := w.model.now.forge[j.ID]; known != string(j.State) {
			why = append(why, fmt.Sprintf("a job is %q, and at the forge %s", known, j.State))
		}
	}
	return why
}

// keepIdle has people be content with as many idle runners as there are, in most seeds, since half of the surplus stays for
// another minute each time (P8).
func (w *world) keepIdle() {
	id, ok := w.presetOf(runnersOf)
	if !ok || w.random("surplus").IntN(4) == 0 {
		return
	}
	t := w.people.config.templates[runnersOf]
	n := 0
	for _, ws := range w.model.now.workspaces {
		if ws.preset == id && (ws.state == "ready" || ws.state == "starting") {
			n++
		}
	}
	t.instances = max(t.instances, min(n, hubMaximum))
	w.people.config.templates[runnersOf] = t
}

// busyDeleted is told of a resource that is about to go (P7).
func (w *world) busyDeleted(p *process, ref provider.Ref) {
	if w.hub != nil && w.hub.busy(ref.Name) {
		w.violate("P7", "%s deletes %s at the provider, whose runner has a job", p.name, ref.Name)
	}
	if w.hub != nil {
		w.hub.lost(ref.Name)
	}
}

// enroll is the agent of a runner: it reads its configuration once, and connects. Until then it tries again, whatever it was
// told.
func (a *agent) enroll(ctx context.Context, p *process, i instance.Instance) error {
	if !a.runner || a.enrolled || i.State != database.WorkspaceStateStarting {
		return nil
	}
	c, err := p.Runners.Configuration(ctx, i.WorkspaceID, i.Bearer.Incarnation)
	if err != nil {
		return err
	}
	a.enrolled = true
	if r := a.w.hub.runners[c.Name]; r != nil && !a.stopped && a.w.agents[a.workspace] == a {
		r.online = true
	}
	return nil
}

// letRunnerGo is what the API does before it deletes a workspace for a person (P7), and says whether it goes on.
func (p *process) letRunnerGo(ctx context.Context, ws workspace) (bool, error) {
	if p.Runners == nil || !slices.Contains([]string{"starting", "ready", "standby", "claimed", "quarantined"}, ws.state) {
		return true, nil
	}
	v, err := p.Runners.Deregister(ctx, ws.id, ws.incarnation)
	return v.Done, err
}

// finished: a claim by a job is ended in the forge's name when its runner is not at a job any more (P7).
func (m *model) finished(e event) {
	ws := m.now.workspaces[e.workspace]
	switch {
	case m.w.hub == nil || !m.now.claims[ws.claim.UUID].forJob:
		m.w.violate("P7", "a claim that is no job's was ended in the name of jobs: %s", e.reason)
	case m.w.hub.busy(ws.name) && !m.w.setBack: // a listing is believed by when it began
		m.w.violate("P7", "%s was released though its runner is at a job: %s", ws.name, e.reason)
	}
}

// grown: a job's state never goes back (P2).
func (m *model) grown(before state) {
	rank := []string{"", "waiting", "queued", "in_progress", "completed"}
	for id, was := range before.forge {
		if now := m.now.forge[id]; slices.Index(rank, now) < slices.Index(rank, was) {
			m.w.violate("P2", "a job that was %s is %q", was, now)
		}
	}
}

// runnersCapped: a pass makes no more runners than their preset may have, busy ones counted (I3).
func (m *model) runnersCapped(planned map[uuid.UUID]bool) {
	for id := range planned {
		p, n := m.now.presets[id], 0
		for _, ws := range m.now.workspaces {
			if ws.preset == id {
				n++
			}
		}
		if p.most > 0 && n > p.most {
			m.w.violate("I3", "%s has %d runners, and %d are the most", p.name, n, p.most)
		}
	}
}
