//go:build !race

package simulation

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// The standby tier: prebuilds that are stopped, and started when they are claimed (C17).

var _ provider.Stopper = cloud{}

// Stop stops a resource, whose agent is not heard of from then on. Nobody may do so to one that was claimed as it ran (I2).
func (c cloud) Stop(ctx context.Context, ref provider.Ref) error {
	return c.power(ctx, "stop", ref, true, c.real.Stop)
}

// Start starts one again.
func (c cloud) Start(ctx context.Context, ref provider.Ref) error {
	return c.power(ctx, "start", ref, false, c.real.Start)
}

func (c cloud) power(ctx context.Context, name string, ref provider.Ref, stopped bool, do func(context.Context, provider.Ref) error) error {
	_, err := ask(ctx, c, name, ref.Name, func(ctx context.Context) (struct{}, error) {
		w := c.p.w
		ws := w.model.now.workspaces[ref.WorkspaceID]
		if stopped && ws.state == string(prebuilds.Claimed) && !ws.fromStandby {
			w.violate("I2", "%s stops %s at the provider, which was claimed as it ran", c.p.name, ref.Name)
		}
		err := do(ctx, ref)
		if a, ok := w.agents[ref.WorkspaceID]; ok && err == nil {
			a.stopped = stopped
		}
		return struct{}{}, err
	}, func(struct{}, fate) (struct{}, error) { return struct{}{}, errCloud })
	return err
}

// tiers gives some seeds pools of which a part is stopped.
func (w *world) tiers(a, b *templateConfig) {
	d := w.random("tiers")
	if d.IntN(5) > 1 {
		return
	}
	a.running = w.tier(1 + d.IntN(3))
	b.running = w.tier(d.IntN(4))
}

// tier is a setting of how many run, empty for all.
func (w *world) tier(n int) string { return []string{"", "0", "1", "50%"}[n] }

// retier changes how many run.
func (w *world) retier(p *process) bool {
	to := w.tier(w.dice("tier").IntN(4))
	return w.change(p, func(t *templateConfig) { t.running = to })
}

func (t templateConfig) standbyYAML() string {
	switch {
	case t.running == "" || t.runner: // a runner can't be stopped
		return ""
	case t.running == "0":
		return ", standby: stopped"
	}
	return fmt.Sprintf(", standby: {running: %s}", t.running)
}

// wantedRunning is how many prebuilds of a preset are to run once all is as it should be.
func (p preset) wantedRunning(desired, waiting int) int {
	n := desired
	switch p.running {
	case "0":
		n = 0
	case "1":
		n = min(n, 1)
	case "50%":
		n = (n + 1) / 2
	}
	return n + waiting
}

// tiersUnsettled says which pools have not as many running and stopped as they should, and which resources do not do what
// their workspaces say.
func (w *world) tiersUnsettled() (why []string) {
	running := map[uuid.UUID]int{}
	resources := map[string]bool{} // whether they are stopped, by name
	all, _ := w.cloud.All()
	for _, r := range all {
		resources[r.Name] = r.Stopped
	}
	for _, ws := range w.model.now.workspaces {
		stopped, there := resources[ws.name]
		switch ws.state {
		case "ready":
			running[ws.preset]++
			if there && stopped {
				why = append(why, "a ready one is stopped at the provider")
			}
		case "standby":
			if there && !stopped {
				why = append(why, "one in standby runs at the provider")
			}
		case "claimed":
			if there && stopped {
				why = append(why, "a claimed one is stopped at the provider")
			}
		}
	}
	for _, p := range w.model.sortedPresets() {
		wanted := w.model.now.wanted(p, w.now())
		if wanted == 0 {
			continue
		}
		desired := p.at(w.now())
		if most := p.wantedRunning(desired, wanted-desired); running[p.id] != most {
			why = append(why, fmt.Sprintf("%s has %d of %d running", p.name, running[p.id], most))
		}
	}
	return why
}
