package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// liar is a cloud of which nothing that it says can be trusted while its faults last: of all calls, 30 % fail, 10 % hang
// until they are ended, and 5 % lie. Failing and hanging, a call may have had its effect or not.
//
// Its lies: created, but it isn't; made twice; deleted, but it isn't; not found, but it is there; a status that nobody
// knows; an error status of what is well.
type liar struct {
	mu     sync.Mutex
	random *rand.Rand
	honest bool
	made   int
	there  []provider.Instance
	told   map[string]int
}

func newLiar(random *rand.Rand) *liar { return &liar{random: random, told: map[string]int{}} }

// mood is how one call goes.
type mood struct {
	fails, hangs, lies bool
	after              bool // it fails or hangs once it has had its effect
	kind               int  // of lie
}

func (l *liar) mood(call string) mood {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told["calls"]++
	if l.honest {
		return mood{}
	}
	m := mood{after: l.random.IntN(2) == 0, kind: l.random.IntN(4)}
	switch p := l.random.Float64(); {
	case p < 0.30:
		m.fails = true
		l.told["failed"]++
	case p < 0.40:
		m.hangs = true
		l.told["hung"]++
	case p < 0.45:
		m.lies = true
		l.told["lies of "+call]++
	}
	return m
}

// trouble is what comes before the effect, or after it.
func (m mood) trouble(ctx context.Context, after bool) error {
	if m.after != after {
		return ctx.Err()
	}
	if m.hangs {
		<-ctx.Done()
	}
	if m.fails {
		return errors.New("the cloud is in a bad mood")
	}
	return ctx.Err()
}

// reform ends all faults.
func (l *liar) reform() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.honest = true
}

// all is what there is.
func (l *liar) all() []provider.Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.there)
}

func (l *liar) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	none, m := provider.Instance{}, l.mood("create")
	if err := m.trouble(ctx, false); err != nil {
		return none, err
	}
	if m.lies && m.kind == 0 {
		return provider.Instance{ProviderID: "none-" + req.Name, Name: req.Name, Tags: req.Tags, Status: provider.StatusRunning}, nil
	}
	i := l.insert(req, m.lies && m.kind == 1)
	if err := m.trouble(ctx, true); err != nil {
		return none, err
	}
	switch {
	case m.lies && m.kind == 2:
		i.Status = "levitating"
	case m.lies && m.kind == 3:
		i.Status, i.Fault = provider.StatusError, "it says that it is broken"
	}
	return i, nil
}

// insert finds the resource, or makes it, or makes it twice.
func (l *liar) insert(req provider.CreateRequest, twice bool) provider.Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.there {
		if i.Name == req.Name && !twice {
			return i
		}
	}
	for {
		l.made++
		i := provider.Instance{
			ProviderID: fmt.Sprintf("liar-%d", l.made), Name: req.Name, Tags: req.Tags, Status: provider.StatusRunning,
		}
		l.there = append(l.there, i)
		if !twice {
			return i
		}
		twice = false
	}
}

func (l *liar) Delete(ctx context.Context, ref provider.Ref) error {
	m := l.mood("delete")
	if err := m.trouble(ctx, false); err != nil {
		return err
	}
	if !m.lies {
		l.mu.Lock()
		l.there = slices.DeleteFunc(l.there, func(i provider.Instance) bool { return meant(ref, i) })
		l.mu.Unlock()
	}
	return m.trouble(ctx, true)
}

func (l *liar) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	m := l.mood("get")
	if err := errors.Join(m.trouble(ctx, false), m.trouble(ctx, true)); err != nil {
		return provider.Instance{}, err
	}
	all := l.all()
	at := slices.IndexFunc(all, func(i provider.Instance) bool { return meant(ref, i) })
	if at < 0 || m.lies && m.kind < 2 {
		return provider.Instance{}, provider.ErrNotFound
	}
	if m.lies {
		all[at].Status = "levitating"
	}
	return all[at], nil
}

func (l *liar) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	if _, err := l.Get(ctx, ref); err != nil {
		return provider.Readiness{}, err
	}
	return provider.Readiness{Ready: true}, nil
}

// List is never incomplete without saying so: nothing could be removed safely by one that is.
func (l *liar) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	m := l.mood("list")
	if err := errors.Join(m.trouble(ctx, false), m.trouble(ctx, true)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(l.all(), func(i provider.Instance) bool { return i.Tags.Installation != installation }), nil
}

func (*liar) Validate(json.RawMessage, map[string]string) []provider.Problem { return nil }

func meant(ref provider.Ref, i provider.Instance) bool {
	return ref.Name == i.Name && (ref.ProviderID == "" || ref.ProviderID == i.ProviderID) &&
		(ref.WorkspaceID == uuid.Nil || ref.WorkspaceID == i.Tags.WorkspaceID)
}
