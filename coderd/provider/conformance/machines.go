package conformance

import (
	"context"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// leastMachines are those that must be unused for the cases to be run.
const leastMachines = 3

// machines are those of a provider.Reserver that were unused when the case began, and which of them each name has.
type machines struct {
	unused   []string
	next     int
	reserved map[string]string
}

// findMachines does what the database does in use: it keeps the workspaces of a case on machines of their own.
func (t *trial) findMachines(ctx context.Context) error {
	reserver, ok := provider.As[provider.Reserver](t.stopper)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.Deadline)
	defer cancel()
	all, err := reserver.ListMachines(ctx)
	if err != nil {
		return xerrors.Errorf("list machines: %w", err)
	}
	for _, m := range all {
		if m.State == provider.MachineUnused {
			t.unused = append(t.unused, m.ID)
		}
	}
	t.reserved = map[string]string{}
	return want(len(t.unused) >= leastMachines, "%d of %d machines are unused: the check needs %d", len(t.unused), len(all),
		leastMachines)
}

// machineOf reserves a machine for a name: the one it has, or the one that was reserved longest ago, which has been given
// back by now.
func (t *trial) machineOf(name string) string {
	if len(t.unused) == 0 {
		return ""
	}
	if _, has := t.reserved[name]; !has {
		t.reserved[name] = t.unused[t.next%len(t.unused)]
		t.next++
	}
	return t.reserved[name]
}

// most is n, or how many machines there are.
func (t *trial) most(n int) int {
	if len(t.unused) == 0 {
		return n
	}
	return min(n, len(t.unused))
}
