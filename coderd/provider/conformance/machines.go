package conformance

import (
	"context"
	"errors"

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
	reserver, ok := provider.As[provider.Reserver](t.Provider)
	if !ok {
		return nil
	}
	all, err := reserver.ListMachines(ctx)
	if err != nil {
		return err
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

// machine is what is said of one.
func (t *trial) machine(ctx context.Context, id string) (provider.Machine, error) {
	reserver, _ := provider.As[provider.Reserver](t.Provider)
	all, err := reserver.ListMachines(ctx)
	if err != nil {
		return provider.Machine{}, err
	}
	for i, m := range all {
		if i > 0 && all[i-1].ID >= m.ID {
			return m, xerrors.Errorf("machine %s is listed after %s: they must be in the order of their ids", m.ID, all[i-1].ID)
		}
	}
	for _, m := range all {
		if m.ID == id {
			return m, nil
		}
	}
	return provider.Machine{}, xerrors.Errorf("machine %s is not listed any more", id)
}

func machinesSay(ctx context.Context, t *trial) {
	req, i := t.create(ctx, "on-a-machine")
	t.must(t.settle(ctx, func() error {
		m, err := t.machine(ctx, req.Machine)
		return errors.Join(err, want(err != nil || m.State == provider.MachineUsed && m.Holder == req.Tags && m.HolderName == req.Name &&
			!m.SeenAt.IsZero(), "machine %s is %+v, want it used by %s with %+v, and seen", req.Machine, m, req.Name, req.Tags))
	}))
	t.did("delete", t.Other.Delete(ctx, refOf(i)))
	t.check(t.settle(ctx, func() error {
		m, err := t.machine(ctx, req.Machine)
		return errors.Join(err, want(err != nil || m.State == provider.MachineUnused, "after the deletion machine %s is %s %s, want it unused",
			req.Machine, m.State, m.Error))
	}))
}

func oneMachine(ctx context.Context, t *trial) {
	has, i := t.create(ctx, "has-it")
	rival, none, unknown := t.request("wants-it"), t.request("has-none"), t.request("wants-another")
	rival.Machine, none.Machine, unknown.Machine = has.Machine, "", "no-such-machine"
	_, rivalErr := t.Provider.Create(ctx, rival)
	_, noneErr := t.Provider.Create(ctx, none)
	_, unknownErr := t.Provider.Create(ctx, unknown)
	t.check(
		wantError(rivalErr, provider.ErrMachineTaken, "create on a machine that another workspace has"),
		want(!provider.IsPermanent(rivalErr), "that a machine is taken is a permanent error: %v", rivalErr),
		wantError(noneErr, provider.ErrNoMachine, "create without a machine"),
		wantError(unknownErr, provider.ErrNoMachine, "create on a machine that is not there"),
		t.Provider.Delete(ctx, provider.Ref{Name: rival.Name, WorkspaceID: rival.Tags.WorkspaceID, Machine: has.Machine}),
	)
	if t.Foreign != nil { // what another installation has is not touched either
		theirs := t.requestOf(t.theirs, "theirs")
		for _, theirs.Machine = range t.unused {
			if theirs.Machine != has.Machine {
				break
			}
		}
		_, err := t.theirs.p.Create(ctx, theirs)
		t.did("create another installation's", err)
		late := t.request("late")
		late.Machine = theirs.Machine
		_, lateErr := t.Provider.Create(ctx, late)
		m, err := t.machine(ctx, theirs.Machine)
		t.check(wantError(lateErr, provider.ErrMachineTaken, "create on a machine that another installation has"), err,
			t.Provider.Delete(ctx, provider.Ref{Name: theirs.Name, WorkspaceID: late.Tags.WorkspaceID, Machine: theirs.Machine}),
			want(err != nil || m.State == provider.MachineUsed && m.Holder == theirs.Tags, "machine %s is %+v, want it used by another "+
				"installation", theirs.Machine, m), t.wantNames(ctx, t.theirs, "theirs"))
	}
	there := t.running(ctx, t.Other, refOf(i))
	t.check(want(there.Tags == has.Tags, "its tags are %+v now, before %+v", there.Tags, has.Tags))
}

// most is n, or how many machines there are.
func (t *trial) most(n int) int {
	if len(t.unused) == 0 {
		return n
	}
	return min(n, len(t.unused))
}
