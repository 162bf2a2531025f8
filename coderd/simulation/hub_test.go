//go:build !race

package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database"
)

// hub is the forge of the world: one organization with its jobs and runners. It hands a job to any idle runner that fits,
// whomever that was made for, and is sure of nothing that it sends.
type hub struct {
	w       *world
	runners map[string]*hubRunner
	jobs    []*hubJob
	ids     int64
	log     []hubDelivery // all that were ever sent, in order
	mail    []hubDelivery // of these, those on their way
}

type hubRunner struct {
	id     int64
	name   string
	labels []string
	online bool
	late   bool // it was registered by who had given up, or is no more
	job    *hubJob
}

// status is what a listing says of it.
func (r *hubRunner) status() forge.RunnerStatus {
	switch {
	case r.job != nil:
		return forge.Active
	case r.online:
		return forge.Idle
	}
	return forge.Offline
}

type hubJob struct {
	forge.Job
	took time.Time
}

type hubDelivery struct {
	id   int64
	guid string
	at   time.Time
	body []byte
}

const (
	hubURL     = "https://hub.test"
	hubPath    = "acme"
	hubRepo    = "acme/shop"
	hubSecret  = "a secret of the simulated hub"
	hubEntity  = "acme"
	hubHookID  = 7
	hubTakes   = time.Second // that a job takes at least
	runnersOf  = "c"         // the template of runners
	hubMaximum = 6
)

var hubEntityID = uuid.MustParse("00000000-0000-4000-8000-00000000f0f0")

func newHub(w *world) *hub { return &hub{w: w, runners: map[string]*hubRunner{}} }

func (h *hub) id() int64 {
	h.ids++
	return h.ids
}

// queue adds a job, and says so.
func (h *hub) queue() {
	j := &hubJob{Job: forge.Job{
		ID: h.id(), RunID: 1, Attempt: 1, State: forge.Queued, Repository: hubRepo, Name: "build", Labels: []string{"Linux"},
		QueuedAt: h.w.now(),
	}}
	h.jobs = append(h.jobs, j)
	h.tell(j)
}

// in lists the jobs in a state, oldest first.
func (h *hub) in(state forge.JobState) []*hubJob {
	return slices.DeleteFunc(slices.Clone(h.jobs), func(j *hubJob) bool { return j.State != state })
}

func (h *hub) idle() []*hubRunner {
	list := slices.SortedFunc(maps.Values(h.runners), func(a, b *hubRunner) int { return cmp.Compare(a.id, b.id) })
	return slices.DeleteFunc(list, func(r *hubRunner) bool { return r.status() != forge.Idle })
}

// take gives a job to a runner.
func (h *hub) take(j *hubJob, r *hubRunner) {
	r.job, j.took = j, time.Now()
	j.State, j.RunnerID, j.RunnerName, j.StartedAt = forge.InProgress, r.id, r.name, h.w.now()
	h.tell(j)
}

// finish ends a job. Its runner was ephemeral, and is gone.
func (h *hub) finish(j *hubJob, conclusion string) {
	delete(h.runners, j.RunnerName)
	j.State, j.Conclusion, j.CompletedAt = forge.Completed, conclusion, h.w.now()
	h.tell(j)
}

// tell sends a delivery, which may never come.
func (h *hub) tell(j *hubJob) {
	body, _ := json.Marshal(j.Job)
	id := h.id()
	d := hubDelivery{id, fmt.Sprint("delivery-", id), h.w.now(), body}
	h.log = append(h.log, d)
	dice := h.w.dice(fmt.Sprint("delivery ", id))
	if h.w.calm || dice.Float64() >= 0.15 || !h.w.allowed("delivery lost") {
		h.mail = append(h.mail, d)
	} else {
		h.w.fired("delivery lost")
	}
	if !h.w.calm && dice.Float64() < 0.2 && h.w.allowed("delivery twice") {
		h.w.fired("delivery twice")
		h.mail = append(h.mail, d)
	}
}

// busy says whether the runner of that name has a job.
func (h *hub) busy(name string) bool {
	r := h.runners[name]
	return r != nil && r.job != nil
}

// lost ends the connection of a runner whose machine goes.
func (h *hub) lost(name string) {
	if r := h.runners[name]; r != nil {
		r.online = false
	}
}

// office is a process's way to the hub: every question waits at the gate.
type office struct {
	p   *process
	hub *hub
}

var (
	_      forge.Forge = office{}
	errHub             = errors.New("simulated failure of the forge")
)

func askHub[T any](ctx context.Context, o office, name, subject string, do func() (T, error)) (T, error) {
	var none T
	if database.InTransaction(ctx) {
		o.p.w.violate("I8", "%s asks the forge inside of a transaction", o.p.name)
	}
	r := o.p.submit(&call{ctx: ctx, name: "hub " + name, subject: subject, mark: markProvider, act: func(f fate) (any, error) {
		switch f {
		case fateErrorBefore, fatePermanent, fateLie:
			return none, errHub
		case fateErrorAfter:
			_, _ = do()
			return none, errHub
		case fateTwice:
			_, _ = do()
		default: // the others are the database's, or fall on the way
		}
		return do()
	}})
	if r.err != nil {
		return none, r.err
	}
	return r.value.(T), nil
}

func (o office) Register(ctx context.Context, n forge.NewRunner) (forge.Registration, error) {
	return askHub(ctx, o, "register", n.Name, func() (forge.Registration, error) {
		if _, there := o.hub.runners[n.Name]; there {
			return forge.Registration{}, forge.ErrConflict
		}
		r := &hubRunner{id: o.hub.id(), name: n.Name, labels: n.Labels, late: ctx.Err() != nil || o.p.dead}
		o.hub.runners[n.Name] = r
		return forge.Registration{RunnerID: r.id, JITConfig: "jit of " + n.Name, URL: hubURL}, nil //nolint:nilerr // late says so
	})
}

func (o office) Runners(ctx context.Context) ([]forge.Runner, error) {
	return askHub(ctx, o, "list", "", func() ([]forge.Runner, error) {
		list := []forge.Runner{}
		for _, r := range slices.SortedFunc(maps.Values(o.hub.runners), func(a, b *hubRunner) int { return cmp.Compare(a.id, b.id) }) {
			list = append(list, forge.Runner{ID: r.id, Name: r.name, Status: r.status(), Labels: r.labels})
		}
		return list, nil
	})
}

func (o office) RunnerNamed(ctx context.Context, name string) (forge.Runner, error) {
	return askHub(ctx, o, "look up", name, func() (forge.Runner, error) {
		r, there := o.hub.runners[name]
		if !there {
			return forge.Runner{}, forge.ErrNotFound
		}
		return forge.Runner{ID: r.id, Name: r.name, Status: r.status(), Labels: r.labels}, nil
	})
}

func (o office) RemoveRunner(ctx context.Context, id int64) error {
	_, err := askHub(ctx, o, "remove", "", func() (struct{}, error) {
		for name, r := range o.hub.runners {
			if r.id != id {
				continue
			}
			if r.job != nil {
				return struct{}{}, forge.ErrBusy
			}
			delete(o.hub.runners, name)
			return struct{}{}, nil
		}
		return struct{}{}, forge.ErrNotFound
	})
	return err
}

func (o office) RegistrationToken(context.Context) (forge.Registration, error) {
	return forge.Registration{}, forge.ErrUnsupported
}

func (o office) JIT(context.Context) (bool, error) { return true, nil }

func (o office) Page() string { return hubURL }

func (o office) Tools(context.Context) ([]forge.Tool, error) { return nil, nil }

func (o office) Job(ctx context.Context, _ string, id int64) (forge.Job, error) {
	return askHub(ctx, o, "ask after a job", "", func() (forge.Job, error) {
		for _, j := range o.hub.jobs {
			if j.ID == id {
				return j.Job, nil
			}
		}
		return forge.Job{}, forge.ErrNotFound
	})
}

func (o office) OpenJobs(ctx context.Context, _ []string) ([]forge.Job, error) {
	return askHub(ctx, o, "list jobs", "", func() ([]forge.Job, error) {
		open := []forge.Job{}
		for _, j := range o.hub.jobs {
			if j.State != forge.Completed {
				open = append(open, j.Job)
			}
		}
		return open, nil
	})
}

func (o office) Deliveries(ctx context.Context, _ int64, since time.Time) ([]forge.Sent, error) {
	return askHub(ctx, o, "list deliveries", "", func() ([]forge.Sent, error) {
		sent := []forge.Sent{}
		for _, d := range slices.Backward(o.hub.log) {
			if d.at.Before(since) {
				break
			}
			sent = append(sent, forge.Sent{ID: d.id, GUID: d.guid, Event: "workflow_job", At: d.at})
		}
		return sent, nil
	})
}

func (o office) DeliveryBody(ctx context.Context, _, id int64) ([]byte, error) {
	return askHub(ctx, o, "read a delivery", "", func() ([]byte, error) {
		for _, d := range o.hub.log {
			if d.id == id {
				return d.body, nil
			}
		}
		return nil, forge.ErrNotFound
	})
}

func (office) Hooks(context.Context, string) ([]forge.Hook, error) { return nil, forge.ErrUnsupported }

func (office) InstallHook(context.Context, string, string, int64) (forge.Hook, error) {
	return forge.Hook{}, forge.ErrUnsupported
}

func (office) Hook(context.Context, int64) (forge.Hook, error) {
	return forge.Hook{}, forge.ErrNotFound
}
func (office) PingHook(context.Context, int64) error   { return forge.ErrUnsupported }
func (office) RemoveHook(context.Context, int64) error { return forge.ErrNotFound }
func (office) Rate() forge.Rate                        { return forge.Rate{} }

// hubKind is how the hub speaks.
type hubKind struct{}

var _ forge.Kind = hubKind{}

func (hubKind) Delivery(h http.Header) (forge.Delivery, error) {
	return forge.Delivery{ID: h.Get("X-Hub-Delivery"), Event: "workflow_job", Signature: []byte(h.Get("X-Hub-Signature"))}, nil
}

func (hubKind) Job(_ string, body []byte) (*forge.Job, error) {
	var j forge.Job
	if err := json.Unmarshal(body, &j); err != nil {
		return nil, err
	}
	return &j, nil
}

func (hubKind) Connect(forge.Connection) (forge.Forge, error) { return nil, forge.ErrUnsupported }
