package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
)

const secret = "a secret of tests"

// act is a recorded delivery: what the forge does, and then tells.
type act struct {
	header http.Header
	body   map[string]any
	event  string
	job    forge.Job // as it was recorded; zero: it is of none
}

// recorded reads deliveries, in the order in which they were made.
func recorded(t *testing.T, kind forge.Kind, files ...string) (story []act) {
	t.Helper()
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var all []struct {
			Headers map[string]string `json:"headers"`
			Body    json.RawMessage   `json:"body"`
		}
		require.NoError(t, json.Unmarshal(raw, &all))
		for _, one := range all {
			a := act{header: http.Header{}}
			for k, v := range one.Headers {
				a.header.Set(k, v)
			}
			d, err := kind.Delivery(a.header)
			require.NoError(t, err)
			a.event = d.Event
			job, err := kind.Job(a.event, one.Body)
			require.NoError(t, err)
			if job != nil {
				a.job = *job
			}
			require.NoError(t, json.Unmarshal(one.Body, &a.body))
			story = append(story, a)
		}
	}
	return story
}

// machine is a runner at the forge.
type machine struct {
	forge.Runner
	online bool
	listed bool
	job    int64
}

// told is a delivery that the forge made.
type told struct {
	id     string
	event  string
	header http.Header
	body   []byte
}

// memory is the forge of one entity. It gives jobs away as the story has it.
type memory struct {
	forge.Forge // what is not asked here
	kind        forge.Kind
	gitea       bool
	pools       map[string][]string // labels of the pool whose runner had a job, by the runner's recorded name
	world       *world

	mu       sync.Mutex
	last     int64
	machines map[string]*machine
	jobs     map[int64]forge.Job // the last attempts, as they are
	queuedAt map[string]time.Time
	log      []told
	asked    bool // what was missed may be asked for
	refused  int  // removals of runners at a job
	given    map[string]string
}

// play does what an act says, if it can be done now, and returns what is told of it.
func (m *memory) play(a act) (told, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if a.job.ID == 0 {
		return m.tell(a, nil), true
	}
	j := a.job
	key := fmt.Sprintf("%d/%d", j.ID, j.Attempt)
	fields := a.body["workflow_job"].(map[string]any)
	set := map[string]any{}
	if m.queuedAt[key].IsZero() {
		m.queuedAt[key] = now
	}
	set["created_at"] = stamp(m.queuedAt[key])
	if labels := m.pools[j.RunnerName]; labels != nil {
		name, ok := m.given[key], true
		if j.State == forge.InProgress {
			name, ok = m.give(j.ID, labels)
		}
		// Of what a Gitea did not tell, only its listings do.
		if !ok || m.asked && m.gitea && j.State == forge.Completed && !m.machines[name].listed {
			return told{}, false
		}
		m.given[key] = name
		set["runner_name"], set["runner_id"] = name, m.machines[name].ID
		if j.State == forge.Completed {
			delete(m.machines, name) // it was for one job
			m.world.ended(name)
		}
	}
	if j.State == forge.InProgress {
		set["started_at"] = stamp(now)
	}
	if j.State == forge.Completed {
		set["started_at"], set["completed_at"] = stamp(now), stamp(now)
	}
	for k, v := range fields {
		if _, is := set[k]; !is {
			set[k] = v
		}
	}
	return m.tell(a, set), true
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// give picks an idle runner with exactly these labels: which pool has a job is the story's, not chance.
func (m *memory) give(job int64, labels []string) (string, bool) {
	for name, r := range m.machines {
		if r.online && r.job == 0 && slices.Equal(r.Labels, labels) {
			r.job = job
			return name, true
		}
	}
	return "", false
}

// tell makes the delivery, and keeps what it says.
func (m *memory) tell(a act, job map[string]any) told {
	body := a.body
	if job != nil {
		body = map[string]any{}
		for k, v := range a.body {
			body[k] = v
		}
		body["workflow_job"] = job
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	d := told{event: a.event, header: a.header.Clone(), body: raw}
	d.header.Set("X-Hub-Signature-256", "sha256="+forgetest.Sign(secret, raw))
	envelope, _ := m.kind.Delivery(d.header)
	d.id = envelope.ID
	m.log = append(m.log, d)
	if j, err := m.kind.Job(a.event, raw); err == nil && j != nil {
		m.jobs[j.ID] = *j
	}
	return d
}

// connect is a runner that has its configuration, in a workspace that is alive.
func (m *memory) connect(name string, labels []string) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.world.dead[name] {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.machines[name]
	if r == nil && m.gitea { // it registers itself
		m.last++
		r = &machine{Runner: forge.Runner{ID: m.last, Name: name, Labels: forge.Labels(labels)}}
		m.machines[name] = r
		m.world.at[name] = m
	}
	if r != nil {
		r.online = true
	}
}

// killed is of a runner whose workspace is deleted: what was wrong with that.
func (m *memory) killed(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.machines[name]
	if r == nil {
		return ""
	}
	r.online = false
	switch {
	case r.job != 0:
		return fmt.Sprintf("was at job %d", r.job)
	case !m.gitea: // which has no way to know one that registers by a token before it does
		return "was still registered"
	}
	return ""
}

func (m *memory) Register(_ context.Context, r forge.NewRunner) (forge.Registration, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.machines[r.Name] != nil {
		return forge.Registration{}, forge.ErrConflict
	}
	if m.gitea {
		return forge.Registration{Token: "a token", URL: "https://gitea.example/acme/tools"}, nil
	}
	m.last++
	m.machines[r.Name] = &machine{Runner: forge.Runner{ID: m.last, Name: r.Name, Labels: forge.Labels(r.Labels)}}
	m.world.at[r.Name] = m
	return forge.Registration{RunnerID: m.last, JITConfig: "a configuration", URL: "https://github.example/acme"}, nil
}

func (r *machine) now() forge.Runner {
	said := r.Runner
	switch {
	case r.job != 0:
		said.Status = forge.Active
	case r.online:
		said.Status = forge.Idle
	default:
		said.Status = forge.Offline
	}
	return said
}

func (m *memory) Runners(context.Context) (list []forge.Runner, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.machines {
		list = append(list, r.now())
		r.listed = r.listed || r.online
	}
	return list, nil
}

func (m *memory) RunnerNamed(_ context.Context, name string) (forge.Runner, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.machines[name]; r != nil {
		return r.now(), nil
	}
	return forge.Runner{}, forge.ErrNotFound
}

func (m *memory) RemoveRunner(_ context.Context, id int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, r := range m.machines {
		if r.ID != id {
			continue
		}
		if r.job != 0 {
			m.refused++
			return forge.ErrBusy
		}
		delete(m.machines, name)
		return nil
	}
	return forge.ErrNotFound
}

// Rate leaves no room for what was missed before that may be asked for: it would tell of every job, and one of which the
// story is late to tell, on a slow machine, would be one that nobody ever had.
func (m *memory) Rate() forge.Rate {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked {
		return forge.Rate{}
	}
	return forge.Rate{Limit: 5000, Remaining: 0}
}

func (m *memory) Deliveries(context.Context, int64, time.Time) (sent []forge.Sent, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gitea {
		return nil, forge.ErrUnsupported
	}
	for i, d := range m.log {
		sent = append(sent, forge.Sent{ID: int64(i), GUID: d.id, Event: d.event, At: time.Now()})
	}
	slices.Reverse(sent)
	return sent, nil
}

func (m *memory) DeliveryBody(_ context.Context, _, id int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log[id].body, nil
}

func (m *memory) Job(_ context.Context, _ string, id int64) (forge.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, known := m.jobs[id]
	if !known {
		return j, forge.ErrNotFound
	}
	return j, nil
}

func (m *memory) OpenJobs(_ context.Context, repositories []string) (open []forge.Job, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		if (j.State == forge.Queued || j.State == forge.InProgress) && slices.Contains(repositories, j.Repository) {
			open = append(open, j)
		}
	}
	return open, nil
}

// registered are the labels of the pools of all runners that are connected, with whether they are at a job, sorted.
func (m *memory) registered() (lines []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.machines {
		if said := r.now(); said.Status != forge.Offline {
			lines = append(lines, strings.Join(r.Labels, ",")+" "+string(said.Status))
		}
	}
	slices.Sort(lines)
	return lines
}

// again is a delivery under another id, as if the forge had made another one of the same.
func (d told) again() told {
	d.header = d.header.Clone()
	for _, name := range []string{"X-GitHub-Delivery", "X-Gitea-Delivery"} {
		if d.header.Get(name) != "" {
			d.header.Set(name, "again-"+uuid.NewString())
		}
	}
	return d
}

// finish ends the job of an act that began it, and tells so by a delivery of its own.
func (m *memory) finish(began act) (told, bool) {
	over := act{header: began.header.Clone(), event: began.event, body: map[string]any{}, job: began.job}
	over.header.Set("X-GitHub-Delivery", uuid.NewString())
	for k, v := range began.body {
		over.body[k] = v
	}
	job := map[string]any{}
	for k, v := range began.body["workflow_job"].(map[string]any) {
		job[k] = v
	}
	over.body["action"], job["status"], job["conclusion"] = "completed", "completed", "success"
	over.body["workflow_job"], over.job.State = job, forge.Completed
	return m.play(over)
}
