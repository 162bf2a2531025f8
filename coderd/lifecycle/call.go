package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// Timeouts are how long a provider may take for one call before the call is ended and counts as failed. A lease is no
// bound: it is extended for as long as the replica lives. A create may take as long as its template lets the workspace
// boot.
type Timeouts struct {
	Look   time.Duration // 1 min
	Delete time.Duration // 10 min
	Power  time.Duration // 10 min, to stop or to start
	// GiveWay is how long a create for a pool lets a start go first that a claim waits for, on one machine: 2 s.
	GiveWay time.Duration
}

func (t Timeouts) orDefault() Timeouts {
	return Timeouts{
		Look: cmp.Or(t.Look, time.Minute), Delete: cmp.Or(t.Delete, 10*time.Minute), Power: cmp.Or(t.Power, 10*time.Minute),
		GiveWay: cmp.Or(t.GiveWay, 2*time.Second),
	}
}

var errCallTimeout = errors.New("call timed out")

// call runs one call of a provider for at most d. If ctx ended, that is for the caller to see; if only the call did, the
// error says so. Whether ctx ended is known exactly, before the call and after it: a process that was frozen in between
// must not go on with what by now is another's.
func (w *Worker) call(ctx context.Context, d time.Duration, do func(ctx context.Context) error) error {
	w.held.Expire()
	defer w.held.Expire()
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := w.Clock.AfterFunc(d, func() { cancel(errCallTimeout) }, "lifecycle", "call")
	defer timer.Stop()
	err := do(bounded)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(bounded), errCallTimeout) {
		return xerrors.Errorf("the provider did not answer within %s", d)
	}
	return err
}

// maxText bounds what is kept of what a provider says, in bytes.
const maxText = 8 << 10

// maxName bounds what is kept of a name in it.
const maxName = 255

// text makes what a provider or a script says fit for the database.
func text(s string) string { return database.TextAtMost(s, maxText) }

// facts are what the provider says of an instance, fit for the database.
func facts(inst provider.Instance) workspaces.Facts {
	addresses := lists.Of(inst.Addresses, func(a provider.Address) provider.Address {
		return provider.Address{Type: text(a.Type), Address: text(a.Address)}
	})
	environment := make(map[string]string, len(inst.Environment))
	for k, v := range inst.Environment {
		environment[text(k)] = text(v)
	}
	a, _ := json.Marshal(addresses)   // strings only: can't fail
	e, _ := json.Marshal(environment) // strings only: can't fail
	return workspaces.Facts{
		ProviderID: text(inst.ProviderID), Addresses: a, Environment: e,
		OSName: database.TextAtMost(inst.OSName, maxName), OSVersion: database.TextAtMost(inst.OSVersion, maxName),
	}
}
