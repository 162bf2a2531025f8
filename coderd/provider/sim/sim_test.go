package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// The test binary is also the other process that shares a cloud.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "helper-process" {
		helper(os.Args[2], os.Args[3])
	}
	os.Exit(m.Run())
}

// helper creates twenty workspaces whose ids follow from their names, over and over, among others who do the same.
func helper(root, installation string) {
	p, err := sim.New(sim.Options{Root: root, Clock: quartz.NewReal()})
	for round := 0; round < 100 && err == nil; round++ {
		req := request(fmt.Sprintf("shared-%d", round%20), `{"create_latency": "0s-1ms"}`)
		req.Tags.Installation = uuid.MustParse(installation)
		req.Tags.WorkspaceID = uuid.NewSHA1(req.Tags.Installation, []byte(req.Name))
		_, err = p.Create(context.Background(), req)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

var installation = uuid.New()

func request(name, spec string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: name, Tags: provider.Tags{Installation: installation, WorkspaceID: uuid.New(), Incarnation: 1},
		Spec: json.RawMessage(spec),
	}
}

func open(t *testing.T, opts sim.Options) *sim.Provider {
	t.Helper()
	if opts.Clock == nil {
		opts.Clock = quartz.NewReal()
	}
	p, err := sim.New(opts)
	require.NoError(t, err)
	return p
}

func count(t *testing.T, p *sim.Provider) int {
	t.Helper()
	n, err := p.Count()
	require.NoError(t, err)
	return n
}

const conforming = `{"create_latency": "1ms-10ms", "ready_latency": "20ms", "delete_latency": "2ms"}`

var garbage = map[string]json.RawMessage{
	"fail":           json.RawMessage(`{"fail": 2}`),
	"lie":            json.RawMessage(`{"lie": "often"}`),
	"create_latency": json.RawMessage(`{"create_latency": "90ms-10ms"}`),
	"delete_latency": json.RawMessage(`{"delete_latency": 5}`),
	"ready_latency":  json.RawMessage(`{"ready_latency": "-5s"}`),
	"surprise":       json.RawMessage(`{"surprise": 1}`),
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		return providertest.Harness{
			Provider: open(t, sim.Options{}), Spec: json.RawMessage(conforming), Garbage: garbage,
		}
	})
}

func TestConformanceInFiles(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		root := t.TempDir()
		return providertest.Harness{
			Provider: open(t, sim.Options{Root: root}), Other: open(t, sim.Options{Root: root}),
			Spec: json.RawMessage(conforming), Garbage: garbage,
		}
	})
}

// With machines it keeps what is asked of all that have a fixed set of them.
func TestConformanceOnMachines(t *testing.T) {
	t.Parallel()
	for name, root := range map[string]string{"memory": "", "files": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := open(t, sim.Options{Root: root, Machines: 5})
			other := one
			if root != "" {
				other = open(t, sim.Options{Root: root, Machines: 5})
			}
			providertest.Run(t, func(*testing.T) providertest.Harness {
				return providertest.Harness{
					Provider: one.Offered(), Other: other.Offered(), Spec: json.RawMessage(conforming), Garbage: garbage,
				}
			})
		})
	}
}

// S2: a machine of which nobody can say what it has is possibly used, for itself only: it is named, it is nobody's to take, it
// is left as it is, and what was on it is not known to be gone.
func TestMachine_unreadable(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := open(t, sim.Options{Root: root, Machines: 3})
	held := request("held", `{}`)
	held.Machine = sim.MachineID(2)
	_, err := p.Create(t.Context(), held)
	require.NoError(t, err)
	file := filepath.Join(root, "resources", "m0002.json")
	const cutOff = "it has been cut o"
	require.NoError(t, os.WriteFile(file, []byte(cutOff), 0o600))

	machines, err := sim.Fleet{Provider: p}.ListMachines(t.Context())
	require.NoError(t, err)
	states := map[string]provider.MachineState{}
	for _, m := range machines {
		states[m.ID] = m.State
	}
	require.Equal(t, map[string]provider.MachineState{
		"m0001": provider.MachineUnused, "m0002": provider.MachinePossiblyUsed, "m0003": provider.MachineUnused,
	}, states)
	require.Contains(t, machines[1].Error, "machine m0002 (sim/m0002): ")
	_, err = p.List(t.Context(), installation)
	missing, whole := provider.Partial(err)
	require.NoError(t, whole)
	require.Contains(t, missing, "m0002")
	for _, ref := range []provider.Ref{{Name: "held"}, {Name: "held", Machine: "m0002"}} {
		require.Error(t, p.Delete(t.Context(), ref), "it may be there")
		_, err = p.Get(t.Context(), ref)
		require.Error(t, err)
		require.NotErrorIs(t, err, provider.ErrNotFound)
	}
	next := request("next", `{}`)
	next.Machine = "m0002"
	_, err = p.Create(t.Context(), next)
	require.ErrorIs(t, err, provider.ErrMachineTaken)
	require.False(t, provider.IsPermanent(err))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, cutOff, string(content))
	next.Machine = "m0001"
	_, err = p.Create(t.Context(), next)
	require.NoError(t, err, "the others go on")
}

// What is not configured to have machines offers none.
func TestMachines_configuration(t *testing.T) {
	t.Parallel()
	for config, reserves := range map[string]bool{"": false, `{"machines": 0}`: false, `{"machines": 2, "lie": 0.1}`: true} {
		opts, err := sim.Config(json.RawMessage(config))
		require.NoError(t, err)
		_, ok := provider.As[provider.Reserver](open(t, opts).Offered())
		require.Equal(t, reserves, ok, config)
	}
	for _, config := range []string{`{"machines": -1}`, `{"machines": 1001}`, `{"machines": "two"}`} {
		_, err := sim.Config(json.RawMessage(config))
		require.ErrorContains(t, err, "machines", config)
	}
}

// Several processes create the same workspaces at once: each exists once, and never twice.
func TestManyProcessesOneCloud(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var processes []*exec.Cmd
	for range 4 {
		cmd := exec.Command(os.Args[0], "helper-process", root, installation.String())
		require.NoError(t, cmd.Start())
		processes = append(processes, cmd)
	}
	for _, cmd := range processes {
		require.NoError(t, cmd.Wait())
	}
	p := open(t, sim.Options{Root: root})
	assert.Equal(t, 20, count(t, p))
	duplicates, err := p.Duplicates()
	require.NoError(t, err)
	assert.Empty(t, duplicates)
	history, err := p.History()
	require.NoError(t, err)
	assert.Len(t, history, 20)
}

// The proof of 'exactly one' must be able to fail.
func TestDuplicatesAreSeen(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"", t.TempDir()} {
		p := open(t, sim.Options{Root: root})
		first, second := request("first", `{}`), request("second", `{}`)
		second.Tags.WorkspaceID = first.Tags.WorkspaceID
		_, err := p.Create(t.Context(), first)
		require.NoError(t, err)
		_, err = p.Create(t.Context(), second)
		require.NoError(t, err)
		require.NoError(t, p.Delete(t.Context(), provider.Ref{Name: "first"}))
		duplicates, err := p.Duplicates()
		require.NoError(t, err)
		assert.Equal(t, map[uuid.UUID]int{first.Tags.WorkspaceID: 2}, duplicates)

		p = open(t, sim.Options{})
		_, err = p.Create(t.Context(), first)
		require.NoError(t, err)
		require.NoError(t, p.Delete(t.Context(), provider.Ref{Name: "first"}))
		_, err = p.Create(t.Context(), second)
		require.NoError(t, err)
		duplicates, err = p.Duplicates()
		require.NoError(t, err)
		assert.Empty(t, duplicates, "one after the other is no duplicate")
	}
}

func TestLatencyIsTheClocks(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	p := open(t, sim.Options{Clock: clock})
	trap := clock.Trap().NewTimer("sim")
	defer trap.Close()
	created := make(chan error)
	go func() {
		_, err := p.Create(t.Context(), request("slow", `{"create_latency": "40ms", "ready_latency": "1m"}`))
		created <- err
	}()
	call := trap.MustWait(t.Context())
	assert.Equal(t, 40*time.Millisecond, call.Duration)
	call.MustRelease(t.Context())
	assert.Zero(t, count(t, p), "it is there only when its time has come")
	clock.Advance(40 * time.Millisecond).MustWait(t.Context())
	require.NoError(t, <-created)

	ref := provider.Ref{Name: "slow"}
	ready, err := p.Ready(t.Context(), ref)
	require.NoError(t, err)
	assert.Equal(t, provider.Readiness{Detail: "ready in 1m0s"}, ready)
	clock.Advance(time.Minute).MustWait(t.Context())
	ready, err = p.Ready(t.Context(), ref)
	require.NoError(t, err)
	assert.Equal(t, provider.Readiness{Ready: true}, ready)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	p := open(t, sim.Options{})
	_, err := p.Create(t.Context(), request("fail", `{"fail": 1}`))
	require.Error(t, err)
	assert.False(t, provider.IsPermanent(err))
	_, err = p.Create(t.Context(), request("refuse", `{"fail_permanent": 1}`))
	require.Error(t, err)
	assert.True(t, provider.IsPermanent(err))
	assert.Zero(t, count(t, p))

	i, err := p.Create(t.Context(), request("broken", `{"error_status": 1}`))
	require.NoError(t, err)
	assert.Equal(t, provider.StatusError, i.Status)
	ready, err := p.Ready(t.Context(), provider.Ref{Name: "broken"})
	require.NoError(t, err)
	assert.True(t, ready.Failed)
}

// Some of what hangs has taken effect by then, and some has not.
func TestHangsUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	p := open(t, sim.Options{})
	for n := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := p.Create(ctx, request(fmt.Sprintf("hang-%d", n), `{"hang": 1}`))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	made := count(t, p)
	assert.Positive(t, made)
	assert.Less(t, made, 20)
}

// A lie takes effect and says that it did not, or says what is not so. Repetition by name finds the truth.
func TestLies(t *testing.T) {
	t.Parallel()
	p := open(t, sim.Options{Seed: 2})
	req := request("lie", `{"lie": 0.5}`)
	var lied int
	for {
		_, err := p.Create(t.Context(), req)
		require.Equal(t, 1, count(t, p), "it is made whatever is said")
		if err == nil {
			break
		}
		lied++
	}
	var absent, strange int
	for range 100 {
		i, err := p.Get(t.Context(), provider.Ref{Name: "lie"})
		switch {
		case err != nil:
			require.ErrorIs(t, err, provider.ErrNotFound)
			absent++
		case i.Status != provider.StatusRunning:
			strange++
		}
	}
	assert.Positive(t, absent)
	assert.Positive(t, strange)
	assert.Positive(t, lied)
	assert.Less(t, absent+strange, 100)
	for p.Delete(t.Context(), provider.Ref{Name: "lie"}) != nil {
		require.Zero(t, count(t, p), "it is deleted whatever is said")
	}
	assert.Zero(t, count(t, p))
}

// What happens to a name depends on the seed, and on nothing else.
func TestChanceIsSeeded(t *testing.T) {
	t.Parallel()
	outcome := func(seed uint64) (s string) {
		p := open(t, sim.Options{Seed: seed, Behavior: sim.Behavior{Fail: 0.5}})
		for n := range 64 {
			_, err := p.Create(t.Context(), request(fmt.Sprintf("n-%d", n), `{}`))
			s += map[bool]string{true: "+", false: "-"}[err == nil]
		}
		return s
	}
	first, again := outcome(1), outcome(1)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, outcome(2))
	assert.Contains(t, first, "+")
	assert.Contains(t, first, "-")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	opts, err := sim.Config(json.RawMessage(`{"root": "/r", "seed": 7, "fail": 0.1, "ready_latency": "1s-2s"}`))
	require.NoError(t, err)
	assert.Equal(t, sim.Options{Root: "/r", Seed: 7, Behavior: sim.Behavior{
		Fail: 0.1, ReadyLatency: sim.Latency{Min: time.Second, Max: 2 * time.Second},
	}}, opts)
	for _, empty := range []string{``, `{}`, `null`} {
		opts, err := sim.Config(json.RawMessage(empty))
		require.NoError(t, err, empty)
		assert.Equal(t, sim.Options{}, opts)
	}
	for _, bad := range []string{`[]`, `{"seed": "x"}`, `{"fail": -1}`, `{"surprise": 1}`} {
		_, err := sim.Config(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
}

func BenchmarkFiles(b *testing.B) {
	p, err := sim.New(sim.Options{Root: b.TempDir(), Clock: quartz.NewReal()})
	require.NoError(b, err)
	for n := range b.N {
		if _, err := p.Create(b.Context(), request(fmt.Sprintf("n-%d", n), `{}`)); err != nil {
			b.Fatal(err)
		}
	}
}

// A create that failed with something made is tried again after a delete; it must not fall the same way for ever.
func TestChanceGoesOnAfterADelete(t *testing.T) {
	t.Parallel()
	p := open(t, sim.Options{Behavior: sim.Behavior{Lie: 0.5}})
	for n := range 32 {
		req := request(fmt.Sprintf("n-%d", n), `{}`)
		made := false
		for range 64 {
			if _, err := p.Create(t.Context(), req); err == nil {
				made = true
				break
			}
			_ = p.Delete(t.Context(), provider.Ref{Name: req.Name}) // lies as well
		}
		assert.True(t, made, "n-%d", n)
	}
}
