package replay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
)

// source is an entity of an order, with its recorded deliveries.
type source struct {
	name  string
	kind  forge.Kind
	gitea bool
	scope forge.Scope
	path  string
	story []act
}

// pools of an order, by name: their labels, priority and maximum.
var pools = []struct {
	name, of string
	labels   []string
	priority int
	maximum  int
}{
	{"small", "acme", []string{"linux", "self-hosted"}, 5, 6},
	{"large", "acme", []string{"large", "linux", "self-hosted"}, 0, 4},
	{"tea", "tea", []string{"linux"}, 0, 4},
}

// had are the pools whose runners had jobs, by the names that these have in the recordings.
var had = map[string]string{
	"prebuild-aaaa": "small", "prebuild-cccc": "small", "prebuild-dddd": "small", "prebuild-bbbb": "large",
	"prebuild-eeee": "large", "prebuild-gggg": "tea", "prebuild-hhhh": "tea",
}

// order is one way in which the story is played and told.
type order struct {
	world    *world
	seed     uint64
	random   *rand.Rand
	template uuid.UUID
	cut      bool
	at       []playing
}

// playing is one entity's story.
type playing struct {
	source
	id     uuid.UUID
	entity string
	memory *memory
	rest   [][]act // of each job, what is still to be played
	held   []told  // made, and not yet sent
}

// open makes entities, presets and forges of an order.
func (w *world) open(seed uint64, sources []source) *order {
	o := &order{world: w, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), cut: seed%2 == 1}
	name := fmt.Sprintf("order-%d", seed)
	document := "templates:\n  - name: " + name + "\n    provider: sim\n    spec: {}\n    presets:\n"
	for _, p := range pools {
		document += "      - {name: " + p.name + ", prebuilds: {instances: 0}}\n"
	}
	w.Apply(w.t, document)
	for _, s := range sources {
		p := playing{source: s, id: uuid.New(), entity: s.name + "-" + name, rest: byJob(s.story)}
		url := fmt.Sprintf("https://%s.example/%d", s.name, seed)
		kind := "github"
		if s.gitea {
			kind = "gitea"
		}
		p.memory = &memory{
			kind: s.kind, gitea: s.gitea, pools: map[string][]string{}, world: w, machines: map[string]*machine{},
			jobs: map[int64]forge.Job{}, queuedAt: map[string]time.Time{}, given: map[string]string{},
		}
		for runner, pool := range had {
			p.memory.pools[runner] = labelsOf(pool)
		}
		w.exec(`INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
			SELECT $1, id, $2, $3::text::forge_kind, $4, 'token', '', 'k', now(), now() FROM organizations`, p.id, p.entity, kind, url)
		w.mu.Lock()
		w.forges[p.id] = p.memory
		w.entities[p.id] = inbox.Entity{
			ID: p.id, OrganizationID: organization, Name: p.entity, Kind: s.kind, KindName: kind, ForgeURL: url, Scope: s.scope,
			Path: s.path, Secrets: []string{secret},
		}
		w.mu.Unlock()
		w.exec(`INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by,
			  hook_id, created_at, updated_at)
			SELECT $1, id, $2, $3::text::forge_scope, $4, $1, '', 'k', 4711, now() - interval '1 day', now() FROM organizations`,
			p.id, p.entity, string(s.scope), s.path)
		o.at = append(o.at, p)
	}
	for _, p := range pools {
		w.exec(`UPDATE presets SET forge_entity_id = (SELECT id FROM forge_entities WHERE name = $3), runner_labels = $4,
			  priority = $5, runner_maximum = $6, instances = 1
			WHERE name = $2 AND template_id = (SELECT id FROM templates WHERE name = $1)`,
			name, p.name, p.of+"-"+name, p.labels, p.priority, p.maximum)
	}
	if err := w.Store.Pool.QueryRow(context.Background(), "SELECT id FROM templates WHERE name = $1", name).Scan(&o.template); err != nil {
		panic(err)
	}
	o.nudge()
	return o
}

var organization = uuid.MustParse("00000000-0000-4000-8000-000000000001")

func labelsOf(pool string) []string {
	for _, p := range pools {
		if p.name == pool {
			return p.labels
		}
	}
	panic(pool)
}

func (o *order) nudge() { o.world.replicas[o.seed%2].Reconciler.Nudge(o.template) }

// byJob splits a story: what happens to one job stays in order, and only that.
func byJob(story []act) (jobs [][]act) {
	at := map[int64]int{}
	for _, a := range story {
		i, known := at[a.job.ID]
		if !known {
			i = len(jobs)
			at[a.job.ID], jobs = i, append(jobs, nil)
		}
		jobs[i] = append(jobs[i], a)
	}
	return jobs
}

// play plays the story to its end, and tells it meanwhile and afterwards: late, twice, in any order, or, of an order that is
// cut, from some point on not at all.
func (o *order) play(ctx context.Context) error {
	length := 0
	for _, p := range o.at {
		length += len(p.story)
	}
	lost := length * 2 // more than are made
	if o.cut {
		lost = o.random.IntN(length)
	}
	made := 0
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for left := true; left; {
		left = false
		for i := range o.at {
			p := &o.at[i]
			if d, ok := o.step(p); ok {
				if made++; made <= lost {
					p.held = append(p.held, d)
				}
				if made == lost || lost == 0 {
					o.ask()
				}
			}
			left = left || len(p.rest) > 0
			if o.random.IntN(2) == 0 {
				if err := o.send(ctx, p); err != nil {
					return err
				}
			}
		}
		if o.random.IntN(2) == 0 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("the story ended with %s to be played: %w", o.unplayed(), ctx.Err())
			}
		}
	}
	for i := range o.at {
		for p := &o.at[i]; len(p.held) > 0; {
			if err := o.send(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask lets the forges be asked for what they do not tell: once they stop to.
func (o *order) ask() {
	for _, p := range o.at {
		p.memory.mu.Lock()
		p.memory.asked = true
		p.memory.mu.Unlock()
	}
}

func (o *order) unplayed() string {
	var jobs []string
	for _, p := range o.at {
		for _, acts := range p.rest {
			jobs = append(jobs, fmt.Sprintf("%s %d %s", p.name, acts[0].job.ID, acts[0].job.State))
		}
	}
	return strings.Join(jobs, ", ")
}

// step plays the next act of some job, if one can be played now.
func (o *order) step(p *playing) (told, bool) {
	if len(p.rest) == 0 {
		return told{}, false
	}
	i := o.random.IntN(len(p.rest))
	d, ok := p.memory.play(p.rest[i][0])
	if !ok {
		return d, false
	}
	if p.rest[i] = p.rest[i][1:]; len(p.rest[i]) == 0 {
		p.rest = slices.Delete(p.rest, i, i+1)
	}
	return d, true
}

// send sends any of those that are held, and some of them again, also under another id.
func (o *order) send(ctx context.Context, p *playing) error {
	if len(p.held) == 0 {
		return nil
	}
	i := o.random.IntN(len(p.held))
	d := p.held[i]
	list := []told{d}
	switch o.random.IntN(6) {
	case 0:
		list = append(list, d)
	case 1:
		list = append(list, d.again())
	case 2: // it is repeated some time
		p.held = append(p.held, d.again())
	}
	p.held = slices.Delete(p.held, i, i+1)
	for _, d := range list {
		if _, err := o.world.replicas[o.random.IntN(2)].Inbox.Accept(ctx, p.entity, d.header, d.body); err != nil {
			return fmt.Errorf("accept delivery: %w", err)
		}
	}
	return nil
}

// ends waits until everything is as it must be at the end, whatever the order was.
func (o *order) ends(ctx context.Context, want []string) error {
	for n := 1; ; n++ {
		got, err := o.now()
		if err != nil {
			return err
		}
		if slices.Equal(want, got) {
			return nil
		}
		if n%5 == 0 { // time passes
			o.world.age(o)
		}
		timer := time.NewTimer(40 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("it came to\n%s\nand not to\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// age has minutes go by for what waits for them: surplus, and jobs that were not heard of.
func (w *world) age(o *order) {
	w.exec(`UPDATE preset_status SET shrunk_at = shrunk_at - interval '1 minute'
		WHERE shrunk_at IS NOT NULL AND preset_id IN (SELECT id FROM presets WHERE template_id = $1)`, o.template)
	if o.cut {
		for _, p := range o.at {
			w.exec(`UPDATE forge_jobs SET seen_at = seen_at - interval '3 minutes', asked_at = asked_at - interval '3 minutes'
				WHERE entity_id = $1 AND state <> 'completed'`, p.id)
		}
	}
	o.nudge()
}

// held is a workspace's state. One that was let go as surplus in the moment in which it was given a job stays draining until
// that is over (P7), which is as good as claimed.
const held = `CASE WHEN w.state = 'draining' AND EXISTS (SELECT FROM forge_jobs j WHERE j.workspace_id = w.id
	AND j.state = 'in_progress') THEN 'claimed' ELSE w.state::text END`

// now is what there is: jobs, workspaces by pool and state, and who is connected to the forges. Of a Gitea that was not heard,
// only what is open there is known, and nothing of what only waits. What pool a waiting job is announced to depends on the order.
func (o *order) now() (lines []string, err error) {
	for _, p := range o.at {
		where := "true"
		if o.cut && p.gitea {
			where = "j.state IN ('queued', 'in_progress')"
		}
		jobs, err := o.world.list(`SELECT concat_ws(' ', $2::text, j.job_id || '/' || j.attempt, j.state::text, nullif(j.conclusion, ''),
			  CASE WHEN j.state <> 'waiting' THEN pr.name END,
			  CASE WHEN j.workspace_id IS NOT NULL THEN 'on ours' WHEN j.runner_name <> '' THEN j.runner_name END, nullif(j.unserved, ''))
			FROM forge_jobs j LEFT JOIN presets pr ON pr.id = j.preset_id WHERE j.entity_id = $1 AND `+where+`
			ORDER BY j.job_id, j.attempt`, p.id, p.name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, jobs...)
		for _, line := range p.memory.registered() {
			lines = append(lines, p.name+" has a runner "+line)
		}
	}
	live, err := o.world.list(`SELECT concat_ws(' ', s.name, s.state, count(*)) FROM (
		  SELECT p.name, `+held+` AS state FROM workspaces w JOIN presets p ON p.id = w.preset_id
		  WHERE w.template_id = $1 AND w.state <> 'deleted') s
		GROUP BY s.name, s.state ORDER BY s.name, s.state = 'claimed'`, o.template)
	return append(lines, live...), err
}
