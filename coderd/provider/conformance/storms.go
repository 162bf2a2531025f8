package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// storm is how many do something at once.
const storm = 20

func manyNames(ctx context.Context, t *trial) error {
	n := t.most(storm)
	names := make([]string, n)
	requests := make([]provider.CreateRequest, n)
	for n := range names {
		names[n] = fmt.Sprintf("many-%d", n)
		requests[n] = t.request(names[n])
	}
	err := each(n, func(n int) error {
		_, err := t.one(n).Create(ctx, requests[n])
		return err
	})
	if err := errors.Join(err, t.wantNames(ctx, t.mine, names...)); err != nil {
		return err
	}
	all, err := t.list(ctx, t.mine)
	if err != nil {
		return err
	}
	err = each(len(all), func(n int) error { return t.one(n).Delete(ctx, refOf(all[n])) })
	return errors.Join(err, t.wantNames(ctx, t.mine))
}

func oneName(ctx context.Context, t *trial) error {
	req := t.request("one")
	ids := make([]string, storm)
	err := each(storm, func(n int) error {
		i, err := t.one(n).Create(ctx, req)
		ids[n] = i.ProviderID
		return err
	})
	ids = slices.Compact(ids)
	return errors.Join(err, want(len(ids) == 1, "one workspace got the ids %q", ids), t.wantNames(ctx, t.mine, "one"))
}

// cutOffCreate ends the context of a create at any point, and then does what a worker does: the same again.
func cutOffCreate(ctx context.Context, t *trial) error {
	for round := range t.Rounds {
		name := fmt.Sprintf("cut-%d", round)
		req := t.request(name)
		cut, cancel := context.WithTimeout(ctx, rand.N(t.CutOff))
		_, _ = t.Provider.Create(cut, req)
		cancel()
		i, err := t.Other.Create(ctx, req)
		if err != nil {
			return xerrors.Errorf("create what was cut off: %w", err)
		}
		err = errors.Join(
			want(i.Status == provider.StatusRunning, "what was cut off and created again has status %q", i.Status),
			t.wantNames(ctx, t.mine, name),
			t.Other.Delete(ctx, refOf(i)),
			t.wantNames(ctx, t.mine),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteDuringCreate gives a create up, as a worker whose lease ends does, and deletes by name before it has returned.
// What an interrupted create still made may come after that delete, but it is found under its name and no other.
func deleteDuringCreate(ctx context.Context, t *trial) error {
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
		if err := errors.Join(err, t.Other.Delete(ctx, byName), t.wantNames(ctx, t.mine)); err != nil {
			return err
		}
	}
	return nil
}

// one is Provider or Other in turn.
func (t *trial) one(n int) provider.Provider {
	if n%2 == 0 {
		return t.Provider
	}
	return t.Other
}
