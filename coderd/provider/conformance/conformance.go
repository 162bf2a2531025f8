// Package conformance is the contract of package provider as something that can be run: by tests against every provider
// (providertest), and by an operator against a configured one before trusting it (`prewarm provider check`).
//
// The cases ask only what the interface shows. What a provider must do beyond that, such as leaving no process behind,
// it tests itself. Those marked safe make a few workspaces one after the other, touch nothing but those, and delete
// them.
package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Subject is a provider to be examined.
type Subject struct {
	Provider provider.Provider
	// Other reaches the same resources, as another replica does. Nil: Provider itself.
	Other provider.Provider
	// Installation is whose workspaces are made; Nil: a new one's.
	Installation uuid.UUID
	// Foreign reaches the same resources for another installation, of which something is made to see that it stays out
	// of sight. Nil: that is only asked for, and nothing is made.
	Foreign             provider.Provider
	ForeignInstallation uuid.UUID // Nil: a new one's
	// Prefix is put before all names. Where there is one, other names of the installation are ignored; else there must
	// be none.
	Prefix string
	// Spec and Parameters make a workspace that becomes ready within Deadline.
	Spec       json.RawMessage
	Parameters map[string]string
	// Callback is what requests hand over for agents, at a provider.AgentHost; zero: nothing.
	Callback provider.Callback
	// Garbage are specs that Validate must refuse, by the path that is wrong. Create must refuse them for good.
	Garbage map[string]json.RawMessage
	// Deadline is how long one call, or becoming ready, may take before it counts as stuck; zero: 30 s.
	Deadline time.Duration
	// Settle is how long an effect may take to show after the call that has it; zero: it must show at once.
	Settle time.Duration
	// CutOff is the span in which a create is cut off by the cases that do so; zero: 15 ms.
	CutOff time.Duration
	// Rounds is how often such a case cuts one off; zero: 15.
	Rounds int
	// Ageless: the provider need not know when a resource was made.
	Ageless bool
	Clock   quartz.Clock // nil: the real one
}

// Case is one clause of the contract.
type Case struct {
	Name  string
	About string // what holds if it passes
	Safe  bool   // may be run against a provider that is in use
	Nicer bool   // Prewarm works without it: its calls are repeated until they succeed
	needs func(provider.Provider) bool
	run   func(context.Context, *trial)
}

// Cases are all there are, in an order in which what builds on something comes after it.
func Cases() []Case {
	return []Case{
		{"GetUnknown", "what does not exist is not found", true, false, nil, getUnknown},
		{"DeleteUnknown", "deleting what does not exist succeeds", true, false, nil, deleteUnknown},
		{"BadNamesAreRefused", "names that are not safe are refused", true, false, nil, badNames},
		{"GarbageIsRefused", "specs that are wrong are refused before anything is made", true, false, nil, garbage},
		{"CreateTwiceIsOne", "a create that is repeated makes one workspace", true, false, nil, createTwice},
		{"CreateWithOtherTagsConflicts", "a name that is taken is refused, and what has it stays", true, false, nil, createConflict},
		{"GetByNameAndByID", "a workspace is found by its name and by the provider's id", true, false, nil, get},
		{"AnotherWorkspaceIsNotMeant", "nothing is done to a workspace of the same name with another id", true, false, nil, anotherWorkspace},
		{"ListIsByInstallation", "a listing has all of this installation and nothing of another", true, false, nil, list},
		{"BecomesReady", "a workspace becomes ready", true, false, nil, becomesReady},
		{"FirstBootScript", "a workspace runs the script that it is given at its first boot, and none that installs a runner", true, false, can[provider.Spoken], firstBootScript},
		{"StopAndStart", "a workspace can be stopped and started", true, false, can[provider.Stopper], stopAndStart},
		{"ResetIsFenced", "a used workspace can be reset, and a late reset changes nothing", true, false, canReset, resetFenced},
		{"MachinesSayWhoseTheyAre", "a machine is unused, used by who has it, and unused again", true, false, can[provider.Reserver], machinesSay},
		{"OneMachineIsOneWorkspace", "a machine that somebody has is no one else's, and one that is not there is refused", true, false, can[provider.Reserver], oneMachine},
		{"EndedContext", "a call that was given up does nothing", true, false, nil, endedContext},
		{"DeleteTwice", "a delete that is repeated succeeds, and leaves nothing", true, false, nil, deleteTwice},
		{"DeletesAtOnce", "five deletes of one workspace at once all succeed", true, true, nil, deletesAtOnce},
		{"ManyNamesAtOnce", "20 workspaces can be made and deleted at once", false, false, nil, manyNames},
		{"OneNameAtOnce", "20 creates of one workspace at once make one", false, false, nil, oneName},
		{"CutOffCreateIsCompleted", "a create that was cut off anywhere is completed by the next", false, false, nil, cutOffCreate},
		{"DeleteDuringCreate", "a create that was given up is undone by name", false, false, nil, deleteDuringCreate},
	}
}

func can[T any](p provider.Provider) bool {
	_, ok := provider.As[T](p)
	return ok
}

// Offered says whether the provider can do what the case is about.
func (c Case) Offered(p provider.Provider) bool { return c.needs == nil || c.needs(p) }

// Run runs the case and deletes what it made. The error says what is not as the contract has it.
func (c Case) Run(ctx context.Context, s Subject) error {
	s.Other, s.Clock = cmp.Or(s.Other, s.Provider), cmp.Or(s.Clock, quartz.NewReal())
	s.Installation, s.ForeignInstallation = cmp.Or(s.Installation, uuid.New()), cmp.Or(s.ForeignInstallation, uuid.New())
	s.Deadline, s.CutOff = cmp.Or(s.Deadline, 30*time.Second), cmp.Or(s.CutOff, 15*time.Millisecond)
	s.Rounds = cmp.Or(s.Rounds, 15)
	t := &trial{
		Subject: s,
		mine:    side{s.Installation, provider.Bounded(s.Provider, s.Deadline), provider.Bounded(s.Other, s.Deadline)},
	}
	t.theirs = side{s.ForeignInstallation, t.mine.p, t.mine.p}
	t.Provider, t.Other = t.mine.p, t.mine.other
	if s.Foreign != nil {
		t.theirs.p = provider.Bounded(s.Foreign, s.Deadline)
		t.theirs.other = t.theirs.p
	}
	if err := t.findMachines(ctx); err != nil {
		return err
	}
	t.attempt(func() { c.run(ctx, t) })
	err := errors.Join(t.failed...)
	// Also when ctx has ended: nothing is to stay behind.
	if left := t.deleteAll(context.WithoutCancel(ctx)); left != nil {
		err = errors.Join(err, xerrors.Errorf("clean up: %w", left))
	}
	return err
}

// trial is one run of one case.
type trial struct {
	Subject
	mine   side
	theirs side
	made   []provider.Ref // by mine
	failed []error        // what is not as the contract has it
	machines
}

// side is one installation's view of the resources.
type side struct {
	installation uuid.UUID
	p, other     provider.Provider
}

func (t *trial) request(name string) provider.CreateRequest { return t.requestOf(t.mine, name) }

func (t *trial) requestOf(s side, name string) provider.CreateRequest {
	req := provider.CreateRequest{
		Name: t.Prefix + name, Machine: t.machineOf(t.Prefix + name),
		// Its id says when it was made: what a check leaves behind is an orphan one day.
		Tags:         provider.Tags{Installation: s.installation, WorkspaceID: uuid.Must(uuid.NewV7()), Incarnation: 1},
		Organization: "default", Template: "conformance", Preset: "conformance",
		Spec: t.Spec, Parameters: t.Parameters, Defaults: provider.CurrentDefaults,
		Callback: t.Callback,
	}
	if s == t.mine {
		t.made = append(t.made, provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID, Machine: req.Machine})
	}
	return req
}

// over ends a case that cannot go on.
type over struct{}

// attempt runs a case to its end, or to what it cannot go on without.
func (t *trial) attempt(run func()) {
	defer func() {
		if why := recover(); why != nil && why != (over{}) {
			panic(why)
		}
	}()
	run()
}

// check notes what is wrong, after which the case goes on.
func (t *trial) check(errs ...error) { t.failed = append(t.failed, errs...) }

// must ends the case where something is wrong that it cannot go on without.
func (t *trial) must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		t.check(err)
		panic(over{})
	}
}

// did is must for what was just done.
func (t *trial) did(doing string, err error) {
	if err != nil {
		t.must(xerrors.Errorf("%s: %w", doing, err))
	}
}

func (t *trial) create(ctx context.Context, name string) (provider.CreateRequest, provider.Instance) {
	return t.createOf(ctx, t.mine, name)
}

func (t *trial) createOf(ctx context.Context, s side, name string) (provider.CreateRequest, provider.Instance) {
	req := t.requestOf(s, name)
	i, err := s.p.Create(ctx, req)
	t.did("create "+req.Name, errors.Join(err, want(i.Status != provider.StatusError, "the provider reports an error: %s", i.Fault)))
	return req, i
}

// list is what a side sees of the names that are ours.
func (t *trial) list(ctx context.Context, s side) ([]provider.Instance, error) {
	all, err := s.other.List(ctx, s.installation)
	// What is on a machine that is away is none of what this case made: that would have failed.
	if _, err = provider.Partial(err); err != nil {
		return nil, xerrors.Errorf("list: %w", err)
	}
	return lists.Only(all, func(i provider.Instance) bool { return strings.HasPrefix(i.Name, t.Prefix) }), nil
}

// deleteAll leaves nothing, and says so if something cannot be deleted. What does not show in a listing is deleted by
// name.
func (t *trial) deleteAll(ctx context.Context) error {
	var failed []error
	for _, s := range []side{t.mine, t.theirs} {
		if s == t.theirs && t.Foreign == nil {
			continue
		}
		all, err := t.list(ctx, s)
		if err != nil {
			failed = append(failed, err)
		}
		for _, i := range all {
			if err := s.p.Delete(ctx, refOf(i)); err != nil {
				failed = append(failed, xerrors.Errorf("%s stays behind: %w", i.Name, err))
			}
		}
	}
	if t.Prefix != "" {
		for _, ref := range t.made {
			if err := t.Provider.Delete(ctx, ref); err != nil {
				failed = append(failed, xerrors.Errorf("%s may stay behind: %w", ref.Name, err))
			}
		}
	}
	if len(failed) == 0 {
		failed = append(failed, t.wantNames(ctx, t.mine))
	}
	return errors.Join(failed...)
}

func refOf(i provider.Instance) provider.Ref {
	return provider.Ref{Name: i.Name, ProviderID: i.ProviderID, WorkspaceID: i.Tags.WorkspaceID}
}
