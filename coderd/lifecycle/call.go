package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// How long a provider may take for one call before the call is ended and counts as failed. A lease is no bound: it is
// extended for as long as the replica lives. A create may take as long as its template lets the workspace boot.
const (
	lookTimeout   = time.Minute
	deleteTimeout = 10 * time.Minute
)

var errCallTimeout = errors.New("call timed out")

// call runs one call of a provider for at most d. If ctx ended, that is for the caller to see; if only the call did, the
// error says so.
func (w *Worker) call(ctx context.Context, d time.Duration, do func(ctx context.Context) error) error {
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

// text makes what a provider or a script says fit for the database, which refuses NUL and broken UTF-8.
func text(s string) string {
	s = clean(s)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + " …"
	}
	return s
}

// clean is s without what the database refuses.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// facts are what the provider says of an instance, fit for the database.
func facts(inst provider.Instance) workspaces.Facts {
	addresses := make([]provider.Address, 0, len(inst.Addresses))
	for _, a := range inst.Addresses {
		addresses = append(addresses, provider.Address{Type: text(a.Type), Address: text(a.Address)})
	}
	environment := make(map[string]string, len(inst.Environment))
	for k, v := range inst.Environment {
		environment[text(k)] = text(v)
	}
	a, _ := json.Marshal(addresses)   // strings only: can't fail
	e, _ := json.Marshal(environment) // strings only: can't fail
	return workspaces.Facts{ProviderID: text(inst.ProviderID), Addresses: a, Environment: e}
}
