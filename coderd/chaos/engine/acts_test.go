package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/userstest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// deed is one act, and what it hit.
type deed struct {
	act, container string
	state          string // of the workspace whose container it is, at that time
}

// foreigner is a container that is nobody's business, as it must stay.
type foreigner struct {
	ID, Name, State, StartedAt string
	Labels                     map[string]string
}

// acts are somebody at work behind the server's back.
type acts struct {
	t       *testing.T
	in      *installation
	random  *rand.Rand
	tally   *userstest.Tally
	deeds   []deed
	removed map[string]bool   // containers of ours that are gone by an act
	strays  map[string]string // what looks like ours, by what it is
	foreign []foreigner
}

// menu is what may be done, and how often for each other.
var menu = []struct {
	name   string
	weight int
	do     func(*acts) deed
}{
	{"docker rm -f", 5, func(a *acts) deed { return a.hit("", a.remove) }},
	{"docker stop", 3, func(a *acts) deed { return a.hit(container.StateRunning, a.stop) }},
	{"docker kill", 3, func(a *acts) deed { return a.hit(container.StateRunning, a.kill) }},
	{"docker pause", 2, func(a *acts) deed { return a.hit(container.StateRunning, a.pause) }},
	{"docker rename", 3, func(a *acts) deed { return a.hit("", a.rename) }},
	{"docker container prune", 1, (*acts).prune},
	{"a foreign container", 2, (*acts).foreignPlain},
	{"another installation's", 2, (*acts).foreignInstallation},
	{"with half of our tags", 1, (*acts).foreignHalf},
	{"our tags, of no row", 3, (*acts).stray},
	{"our tags and name, twice", 2, func(a *acts) deed { return a.hit("", a.twin) }},
	{"removed, and made anew", 2, func(a *acts) deed { return a.hit("", a.anew) }},
}

// I2, I4, I6, S1 to S6: whatever somebody does at the engine, nothing foreign is touched, nothing is left, no claimed
// workspace goes but by its user, and in the end every pool is full. The breaker opens when the engine is away, and closes
// alone.
func TestActs(t *testing.T) {
	t.Parallel()
	n, thorough := rounds(t, 25)
	away, between, visits := 4*time.Second, 300*time.Millisecond, 600*time.Millisecond
	if thorough {
		away, between, visits = time.Minute, 2*time.Second, 6*time.Second
	}
	r := random(t)
	engine := dockertest.Start(t)
	engine.Image(t)
	in := newInstallation(t, engine, thorough)
	in.start()
	in.start()
	in.pools(1, 6, 3)
	nothing := map[string]bool{}
	eventually(t, "the pools fill", patience, func() string { return in.unsettled(nothing, nil) })

	all, counted, stop := userstest.Start(t, userstest.Options{
		Clients: []*sdk.Client{in.servers[0].Client, in.servers[1].Client}, Random: r, Every: visits, Asks: asks,
	})
	a := &acts{
		t: t, in: in, random: r, tally: counted, removed: map[string]bool{}, strays: map[string]string{},
	}
	for i := range n {
		time.Sleep(time.Duration(r.Int64N(int64(between))))
		switch {
		case i == n/2:
			a.outage(engine.Stop, "the engine stopped for "+away.String(), away)
		case thorough && (i == n/4 || i == n*3/4):
			a.outage(engine.Kill, "the engine killed", 0)
		default:
			a.act()
		}
	}
	ended := time.Now()
	stop()
	most := patience
	if thorough {
		most = 3 * patience
	}
	eventually(t, "all is well", most, func() string { return a.amiss() })
	t.Logf("all was well %.1f s after the last act", time.Since(ended).Seconds())
	a.verify(all)
	a.report(all)
}

// act does one thing of the menu.
func (a *acts) act() {
	total := 0
	for _, m := range menu {
		total += m.weight
	}
	pick := a.random.IntN(total)
	for _, m := range menu {
		if pick -= m.weight; pick < 0 {
			d := m.do(a)
			d.act = m.name
			a.deeds = append(a.deeds, d)
			return
		}
	}
}

// hit does something to one container of ours, of those in that state where one is given; where there is none, to the
// first that comes.
func (a *acts) hit(state container.ContainerState, do func(context.Context, container.Summary) error) deed {
	var found []container.Summary
	eventually(a.t, "there is a container to do something to", patience, func() string {
		var err error
		found, err = a.in.containers()
		require.NoError(a.t, err)
		found = slices.DeleteFunc(found, func(c container.Summary) bool {
			return a.strays[c.ID] != "" || state != "" && c.State != state
		})
		if len(found) == 0 {
			return "there is none"
		}
		return ""
	})
	slices.SortFunc(found, func(x, y container.Summary) int { return strings.Compare(x.ID, y.ID) })
	c := found[a.random.IntN(len(found))]
	d := deed{container: c.ID, state: "unrecorded"}
	for _, r := range a.in.rows() {
		if r.ProviderID == c.ID {
			d.state = r.State
		}
	}
	if err := do(a.t.Context(), c); err != nil { // the server was faster
		d.state = "too late"
		a.t.Logf("an act came too late: %v", err)
	}
	return d
}

func (a *acts) remove(ctx context.Context, c container.Summary) error {
	_, err := a.in.engine.Client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true})
	if err == nil {
		a.removed[c.ID] = true
	}
	return err
}

func (a *acts) stop(ctx context.Context, c container.Summary) error {
	_, err := a.in.engine.Client.ContainerStop(ctx, c.ID, client.ContainerStopOptions{})
	return err
}

func (a *acts) kill(ctx context.Context, c container.Summary) error {
	_, err := a.in.engine.Client.ContainerKill(ctx, c.ID, client.ContainerKillOptions{Signal: "SIGKILL"})
	return err
}

func (a *acts) pause(ctx context.Context, c container.Summary) error {
	_, err := a.in.engine.Client.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{})
	return err
}

func (a *acts) rename(ctx context.Context, c container.Summary) error {
	_, err := a.in.engine.Client.ContainerRename(ctx, c.ID, client.ContainerRenameOptions{NewName: a.name("mine")})
	return err
}

// anew makes a container with the name and all labels of one that it removes, as tools do that update images.
func (a *acts) anew(ctx context.Context, c container.Summary) error {
	if err := a.remove(ctx, c); err != nil {
		return err
	}
	_, err := a.imitate("made anew", strings.TrimPrefix(c.Names[0], "/"), c.Labels, true)
	return err
}

// twin makes a second container with all labels of one that is there.
func (a *acts) twin(_ context.Context, c container.Summary) error {
	_, err := a.imitate("twin", a.name("twin"), c.Labels, true)
	return err
}

// prune removes what is stopped, of ours: what is parked, and what users have stopped.
func (a *acts) prune() deed {
	pruned, err := a.in.engine.Client.ContainerPrune(a.t.Context(), client.ContainerPruneOptions{
		Filters: make(client.Filters).Add("label", labelInstallation+"="+a.in.id.String()).Add("label", labelWorkspace),
	})
	require.NoError(a.t, err)
	for _, id := range pruned.Report.ContainersDeleted {
		a.removed[id] = true
	}
	return deed{state: fmt.Sprintf("%d at once", len(pruned.Report.ContainersDeleted))}
}

func (a *acts) foreignPlain() deed { return a.foreigner(nil) }

func (a *acts) foreignInstallation() deed {
	return a.foreigner(a.tags(uuid.New()))
}

// foreignHalf has our installation's tag and not those that make it a workspace.
func (a *acts) foreignHalf() deed {
	return a.foreigner(map[string]string{labelInstallation: a.in.id.String(), labelName: a.name("prebuild")})
}

// stray is tagged as ours, and no row is of it.
func (a *acts) stray() deed {
	tags := a.tags(a.in.id)
	id, err := a.imitate("stray", tags[labelName], tags, a.random.IntN(2) == 0)
	if err != nil {
		a.t.Logf("it was gone before it ran: %v", err)
	}
	return deed{container: id}
}

func (a *acts) tags(installation uuid.UUID) map[string]string {
	return map[string]string{
		labelInstallation: installation.String(), labelWorkspace: uuid.NewString(), labelIncarnation: "1",
		labelName: a.name("prebuild"),
	}
}

func (a *acts) name(first string) string { return fmt.Sprintf("%s-%x", first, a.random.Uint64()) }

// make makes a container, and starts it or not. One that runs is run again by the engine when that comes back. What is
// tagged as ours may be gone before it starts.
func (a *acts) make(name string, labels map[string]string, run bool) (id string, err error) {
	host := &container.HostConfig{NetworkMode: "none"}
	if run {
		host.RestartPolicy.Name = container.RestartPolicyAlways
	}
	made, err := a.in.engine.Client.ContainerCreate(a.t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: dockertest.GuestImage, Labels: labels}, HostConfig: host,
	})
	if err == nil && run {
		_, err = a.in.engine.Client.ContainerStart(a.t.Context(), made.ID, client.ContainerStartOptions{})
	}
	return made.ID, err
}

// imitate makes a container that is tagged as ours.
func (a *acts) imitate(kind, name string, labels map[string]string, run bool) (id string, err error) {
	id, err = a.make(name, labels, run)
	if id != "" {
		a.strays[id] = kind
	}
	return id, err
}

func (a *acts) foreigner(labels map[string]string) deed {
	id, err := a.make(a.name("theirs"), labels, a.random.IntN(3) > 0)
	require.NoError(a.t, err)
	a.foreign = append(a.foreign, a.look(id))
	return deed{container: id}
}

// look is how a foreign container is now.
func (a *acts) look(id string) foreigner {
	is, err := a.in.engine.Client.ContainerInspect(a.t.Context(), id, client.ContainerInspectOptions{})
	require.NoError(a.t, err, "a foreign container is gone")
	c := is.Container
	return foreigner{c.ID, c.Name, string(c.State.Status), c.State.StartedAt, c.Config.Labels}
}

// outage takes the engine away, at least until the breaker has opened, and brings it back.
func (a *acts) outage(end func(), name string, lasts time.Duration) {
	eventually(a.t, "the breaker is closed, and there is something to claim while the engine is away", 3*patience, func() string {
		if b := a.breaker(); b != nil {
			return "the breaker is open: " + b.Reason
		}
		p, err := a.in.client().Preset(context.Background(), "guests", "running")
		require.NoError(a.t, err)
		if p.Counts.Eligible < 3 { // two may be claimed in this moment
			return fmt.Sprintf("%+v", p.Counts)
		}
		a.tally.Hold.Store(true) // until it is away: an engine may take its time to end
		return ""
	})
	end()
	a.tally.Away.Store(true)
	a.tally.Hold.Store(false)
	if lasts > 0 {
		time.Sleep(lasts)
		eventually(a.t, "the breaker opens", patience, func() string {
			if a.breaker() == nil {
				return "it is closed"
			}
			return ""
		})
		// An engine that ends its containers before itself may still be listed in between, with all of them stopped.
		assert.Regexp(a.t, "the listing failed|new discrepancies", a.breaker().Reason)
	}
	a.tally.Away.Store(false)
	require.NoError(a.t, a.in.engine.Start())
	for i, f := range a.foreign { // their processes are others now
		eventually(a.t, "the engine runs foreign containers again", patience, func() string {
			a.foreign[i] = a.look(f.ID)
			if a.foreign[i].State != f.State {
				return f.Name + " is " + a.foreign[i].State
			}
			return ""
		})
	}
	a.deeds = append(a.deeds, deed{act: name})
}

// breaker is what the API says of it; nil: it is closed.
func (a *acts) breaker() *sdk.Breaker {
	a.t.Helper()
	all, err := a.in.client().Inventories(context.Background(), "docker")
	require.NoError(a.t, err)
	require.Len(a.t, all, 1)
	return all[0].Breaker
}

// report prints what was done, and what has become of it.
func (a *acts) report(all []*userstest.User) {
	states, last := map[string]string{}, map[string]map[string]int{}
	for _, r := range a.in.rows() {
		states[r.ProviderID] = r.State
		for _, u := range all {
			if u.Released[r.ID] {
				states[r.ProviderID] = "released by its user"
			}
		}
	}
	times := map[string]int{}
	for _, d := range a.deeds {
		times[d.act]++
		end := "untouched"
		switch state, known := states[d.container]; {
		case d.container == "":
			end = d.state
		case a.strays[d.container] != "":
			end = a.strays[d.container] + " → deleted"
		case known && a.removed[d.container] && state == "claimed":
			end = d.state + " → claimed, with an alarm"
		case known:
			end = d.state + " → " + state
		}
		if last[d.act] == nil {
			last[d.act] = map[string]int{}
		}
		if end != "" {
			last[d.act][end]++
		}
	}
	table := "\n| act | times | what it hit → what has become of that |\n| --- | --- | --- |\n"
	for _, name := range slices.Sorted(maps.Keys(times)) {
		var ends []string
		for _, end := range slices.Sorted(maps.Keys(last[name])) {
			ends = append(ends, fmt.Sprintf("%d %s", last[name][end], end))
		}
		table += fmt.Sprintf("| %s | %d | %s |\n", name, times[name], strings.Join(ends, ", "))
	}
	a.t.Log(table)
}
