//go:build !race

package simulation

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

// agent is what runs inside of a workspace: it reports to whichever replica answers, until its token is refused.
type agent struct {
	w         *world
	workspace uuid.UUID
	resource  string
	token     string
	silent    time.Time // until when
	sick      bool
	stutters  bool // it falls silent whenever its workspace is ready
	stopped   bool // with its resource
	runner    bool // of a forge
	enrolled  bool // it has read its configuration
	leave     context.CancelFunc
}

const heartbeat = 1500 * time.Millisecond

// enliven starts the agent of a resource that was made. One that exists keeps its own.
func (w *world) enliven(req provider.CreateRequest, inst provider.Instance) {
	if req.Callback.Token == "" {
		return
	}
	id := req.Tags.WorkspaceID
	if a, ok := w.agents[id]; ok {
		if a.resource == inst.ProviderID {
			return
		}
		a.leave()
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &agent{w: w, workspace: id, resource: inst.ProviderID, token: req.Callback.Token, leave: cancel}
	a.runner = w.hub != nil && w.model.nameOf(id, w.model.now) == runnersOf
	w.agents[id] = a
	w.people.agents = append(w.people.agents, cancel)
	go a.run(ctx)
}

func (a *agent) run(ctx context.Context) {
	for n := 0; ; n++ {
		pause := heartbeat
		if a.runner && !a.enrolled { // it asks for its configuration more often
			pause = heartbeat / 3
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if a.w.over || a.w.agents[a.workspace] != a {
			return
		}
		if a.stopped || time.Now().Before(a.silent) || a.stutters && a.w.model.now.workspaces[a.workspace].state == "ready" {
			continue
		}
		p := a.w.any("agent")
		if p == nil {
			continue
		}
		var refused *instance.Refusal
		if err := a.report(ctx, p, n); errors.As(err, &refused) {
			return
		}
	}
}

func (a *agent) report(ctx context.Context, p *process, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	i, err := p.Instances.Authenticate(ctx, a.token)
	if err != nil {
		return err
	}
	if err := a.enroll(ctx, p, i); err != nil {
		a.w.note("a runner enrolls: %s", outcomeOf(err))
	}
	r := instance.Report{Status: database.AgentStatusReady}
	switch {
	case a.sick:
		r.Status, r.Message = database.AgentStatusUnhealthy, "simulated"
	case i.State == database.WorkspaceStateClaimed:
		r.Status, r.ClaimID = database.AgentStatusClaimReady, i.ClaimID.UUID
	case n == 0:
		r.Status = database.AgentStatusStarting
	}
	_, err = p.Instances.Report(ctx, i, r)
	return err
}

func (w *world) anAgent(purpose string) *agent {
	list := slices.SortedFunc(maps.Values(w.agents), func(a, b *agent) int {
		return cmp.Compare(a.workspace.String(), b.workspace.String())
	})
	if len(list) == 0 {
		return nil
	}
	return list[w.dice(purpose).IntN(len(list))]
}

func (w *world) silence() bool {
	a := w.anAgent("silence")
	if a == nil {
		return false
	}
	a.silent = time.Now().Add(time.Duration(4+w.dice("for").IntN(20)) * time.Second)
	return true
}

// stutter has an agent fall silent again and again, until its workspace is given up.
func (w *world) stutter() bool {
	a := w.anAgent("stutter")
	if a == nil || a.runner {
		return false
	}
	a.stutters = true
	return true
}

// kill ends an agent for good, with nothing to start it again.
func (w *world) kill() bool {
	a := w.anAgent("kill")
	if a == nil {
		return false
	}
	a.leave()
	return true
}

func (w *world) sicken() bool {
	a := w.anAgent("sicken")
	if a == nil {
		return false
	}
	a.sick = true
	return true
}

func (m *model) sortedWorkspaces() []workspace {
	return slices.SortedFunc(maps.Values(m.now.workspaces), func(a, b workspace) int {
		return cmp.Compare(a.id.String(), b.id.String())
	})
}
