package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// storm is how many do something at once.
const storm = 20

func manyNames(ctx context.Context, t *trial) {
	names := make([]string, t.most(storm))
	requests := make([]provider.CreateRequest, len(names))
	for n := range names {
		names[n] = fmt.Sprintf("many-%d", n)
		requests[n] = t.request(names[n])
	}
	err := each(len(names), func(n int) error {
		_, err := t.one(n).Create(ctx, requests[n])
		return err
	})
	t.must(err, t.wantNames(ctx, t.mine, names...))
	all, err := t.list(ctx, t.mine)
	t.must(err)
	t.check(each(len(all), func(n int) error { return t.one(n).Delete(ctx, refOf(all[n])) }), t.wantNames(ctx, t.mine))
}

func oneName(ctx context.Context, t *trial) {
	req := t.request("one")
	ids := make([]string, storm)
	err := each(storm, func(n int) error {
		i, err := t.one(n).Create(ctx, req)
		ids[n] = i.ProviderID
		return err
	})
	ids = slices.Compact(ids)
	t.check(err, want(len(ids) == 1, "one workspace got the ids %q", ids), t.wantNames(ctx, t.mine, "one"))
}

// cutOffCreate ends the context of a create at any point, and then does what a worker does: the same again.
func cutOffCreate(ctx context.Context, t *trial) {
	for round := range t.Rounds {
		name := fmt.Sprintf("cut-%d", round)
		req := t.request(name)
		cut, cancel := context.WithTimeout(ctx, rand.N(t.CutOff))
		_, _ = t.Provider.Create(cut, req)
		cancel()
		i, err := t.Other.Create(ctx, req)
		t.did("create what was cut off", err)
		if t.Settle == 0 { // else it runs a little later
			t.must(want(i.Status == provider.StatusRunning, "what was cut off and created again has status %q", i.Status))
		}
		t.running(ctx, t.Other, refOf(i))
		t.must(
			t.wantNames(ctx, t.mine, name),
			t.Other.Delete(ctx, refOf(i)),
			t.wantNames(ctx, t.mine),
		)
	}
}

// deleteDuringCreate gives a create up, as a worker whose lease ends does, and deletes by name before it has returned.
// What an interrupted create still made may come after that delete, but it is found under its name and no other.
func deleteDuringCreate(ctx context.Context, t *trial) {
	for round := range t.Rounds {
		req := t.request(fmt.Sprintf("race-%d", round))
		creating, cancel := context.WithCancel(ctx)
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			_, _ = t.Provider.Create(creating, req)
		}()
		giveUp := t.Clock.NewTimer(max(rand.N(t.CutOff), time.Microsecond), "conformance", "give up")
		<-giveUp.C
		cancel()
		byName := provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID, Machine: req.Machine}
		err := t.Other.Delete(ctx, byName)
		<-returned
		t.must(err, t.Other.Delete(ctx, byName), t.wantNames(ctx, t.mine))
	}
}

// one is Provider or Other in turn.
func (t *trial) one(n int) provider.Provider {
	if n%2 == 0 {
		return t.Provider
	}
	return t.Other
}
