package hosts_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
)

func requestOn(m *hoststest.Machine, name, spec string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: name, Machine: m.Name, Organization: "default", Template: "t", Preset: "p", Spec: json.RawMessage(spec),
		Tags: provider.Tags{Installation: uuid.New(), WorkspaceID: uuid.New(), Incarnation: 1},
	}
}

func ref(req provider.CreateRequest) provider.Ref {
	return provider.Ref{Name: req.Name, Machine: req.Machine, WorkspaceID: req.Tags.WorkspaceID}
}

func create(t *testing.T, p *hosts.Provider, req provider.CreateRequest) provider.Instance {
	t.Helper()
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	return i
}

// becomes waits until the workspace is ready, or has failed, and returns what is said of it.
func becomes(t *testing.T, p *hosts.Provider, req provider.CreateRequest) provider.Readiness {
	t.Helper()
	var last provider.Readiness
	require.Eventually(t, func() bool {
		var err error
		last, err = p.Ready(t.Context(), ref(req))
		return err == nil && (last.Ready || last.Failed)
	}, deadline, 20*time.Millisecond)
	return last
}

func states(t *testing.T, p *hosts.Provider) map[string]provider.Machine {
	t.Helper()
	all, err := p.ListMachines(t.Context())
	require.NoError(t, err)
	byName := map[string]provider.Machine{}
	for _, m := range all {
		byName[m.ID] = m
	}
	return byName
}

// impatient is a provider that soon gives a machine up.
var impatient = map[string]any{"connect_timeout": "2s", "call_timeout": "4s", "keepalive": "1s"}

// S2: a machine that is away, frozen, or another than it was is an error for that machine only, with its id and address; and
// what was on it is unknown, never absent.
func TestFaults_ofOneMachine(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name string
		do   func(*hoststest.Machine, testing.TB)
		undo func(*hoststest.Machine, testing.TB)
		says string
	}{
		{"killed", (*fixture).Kill, (*fixture).Start, "connect"},
		{"frozen", (*fixture).Freeze, (*fixture).Thaw, "did not answer within"},
		{"another host key", (*fixture).NewHostKey, nil, "the host key has changed"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			f := hoststest.Start(t, 3)
			p := open(t, f, impatient)
			req := requestOn(f.Machines[1], "held", simple)
			create(t, open(t, f, nil), req)
			require.True(t, becomes(t, open(t, f, nil), req).Ready)
			var machines map[string]provider.Machine
			// The impatient may take one for gone that is only slow, and so may have to look again.
			become := func(m00, m01, m02 provider.MachineState) {
				t.Helper()
				require.Eventually(t, func() bool {
					machines = states(t, p)
					return machines["m00"].State == m00 && machines["m01"].State == m01 && machines["m02"].State == m02
				}, deadline, 50*time.Millisecond)
			}
			become(provider.MachineUnused, provider.MachineUsed, provider.MachineUnused) // by connections that the fault meets

			fault.do(f.Machines[1], t)
			become(provider.MachineUnused, provider.MachinePossiblyUsed, provider.MachineUnused)
			require.Contains(t, machines["m01"].Error, "machine m01 ("+f.Machines[1].Address()+"): ")
			require.Contains(t, machines["m01"].Error, fault.says)
			require.Zero(t, machines["m01"].SeenAt)
			require.Eventually(t, func() bool {
				found, err := p.List(t.Context(), req.Tags.Installation)
				missing, whole := provider.Partial(err)
				require.NoError(t, whole)
				require.Contains(t, missing, "m01")
				require.Empty(t, found)
				return len(missing) == 1
			}, deadline, 50*time.Millisecond)
			require.Error(t, p.Delete(t.Context(), ref(req)), "who cannot be asked has deleted nothing")
			_, err := p.Get(t.Context(), provider.Ref{Name: "held"})
			require.Error(t, err)
			require.NotErrorIs(t, err, provider.ErrNotFound)

			if fault.undo == nil {
				return
			}
			fault.undo(f.Machines[1], t)
			require.Eventually(t, func() bool { return states(t, p)["m01"].State == provider.MachineUsed }, deadline,
				50*time.Millisecond)
			require.NoError(t, open(t, f, nil).Delete(t.Context(), ref(req)))
			require.Equal(t, provider.MachineUnused, states(t, open(t, f, nil))["m01"].State)
		})
	}
}

type fixture = hoststest.Machine

// S2: a machine whose state cannot be read is possibly used: nobody takes it, it is named, and it is left as it is.
func TestUnreadableState(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"cut off": "phase=prepared\ninstallation=", "of nobody": "phase=prepared\ninstallation=x\nworkspace=\nname=\nend=\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hoststest.Start(t, 2)
			m, p := f.Machines[0], open(t, f, nil)
			file := filepath.Join(m.Home, ".prewarm/state")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, []byte(state), 0o600))
			machines := states(t, p)
			require.Equal(t, provider.MachinePossiblyUsed, machines["m00"].State)
			require.Equal(t, provider.MachineUnused, machines["m01"].State)
			require.Contains(t, machines["m00"].Error, "machine m00 ("+m.Address()+"): ")
			require.NotZero(t, machines["m00"].SeenAt)
			req := requestOn(m, "wants-it", simple)
			_, err := p.Create(t.Context(), req)
			require.ErrorIs(t, err, provider.ErrMachineTaken)
			require.False(t, provider.IsPermanent(err))
			_, err = p.List(t.Context(), req.Tags.Installation)
			missing, whole := provider.Partial(err)
			require.NoError(t, whole)
			require.Contains(t, missing, "m00")
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, state, string(content))
		})
	}
}

// A connection that is cut while a machine prepares or resets itself interrupts neither; a machine that is restarted
// meanwhile does it again.
func TestFaults_duringPrepareAndReset(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name string
		do   func(*hoststest.Machine, testing.TB)
		runs string // how often a script is begun
	}{
		{"cut", (*fixture).Cut, "x"},
		{"restarted", (*fixture).Reboot, "xx"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			f := hoststest.Start(t, 1)
			m, p := f.Machines[0], open(t, f, nil)
			// Each script says that it is begun, and ends when it may.
			req := requestOn(m, "interrupted", `{
				"prepare": "printf x >>$HOME/prepares; until test -e $HOME/go-on; do sleep 0.05; done; touch done",
				"reset": "printf x >>$HOME/resets; until test -e $HOME/go-out; do sleep 0.05; done"}`)
			create(t, p, req)
			begun := func(file string) func() bool {
				return func() bool {
					content, err := os.ReadFile(filepath.Join(m.Home, file))
					return err == nil && len(content) > 0
				}
			}
			require.Eventually(t, begun("prepares"), deadline, 10*time.Millisecond)
			fault.do(m, t)
			require.NoError(t, os.WriteFile(filepath.Join(m.Home, "go-on"), nil, 0o600))
			require.True(t, becomes(t, p, req).Ready)
			require.FileExists(t, filepath.Join(m.Home, ".prewarm/workspace/done"))

			deleted := make(chan error, 1)
			go func() { deleted <- p.Delete(context.WithoutCancel(t.Context()), ref(req)) }()
			require.Eventually(t, begun("resets"), deadline, 10*time.Millisecond)
			require.Equal(t, provider.MachineUsed, states(t, open(t, f, nil))[m.Name].State, "not before its reset is over")
			fault.do(m, t)
			require.NoError(t, os.WriteFile(filepath.Join(m.Home, "go-out"), nil, 0o600))
			<-deleted // perhaps with an error: it is repeated
			require.NoError(t, p.Delete(t.Context(), ref(req)))
			require.Equal(t, provider.MachineUnused, states(t, p)[m.Name].State)
			require.NoDirExists(t, filepath.Join(m.Home, ".prewarm/workspace"))
			for _, file := range []string{"prepares", "resets"} {
				content, err := os.ReadFile(filepath.Join(m.Home, file))
				require.NoError(t, err)
				require.Equal(t, fault.runs, string(content), file)
			}
		})
	}
}

// A reset that does not succeed, or is not proven, leaves the machine to nobody, until one succeeds.
func TestReset_thatIsNotProven(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], open(t, f, nil)
	req := requestOn(m, "first", `{"reset": "test -e $HOME/may", "proof": "test ! -e $HOME/mark"}`)
	create(t, p, req)
	require.True(t, becomes(t, p, req).Ready)
	require.NoError(t, os.WriteFile(filepath.Join(m.Home, "mark"), nil, 0o600))
	for _, mend := range []func(){
		func() {},
		func() { require.NoError(t, os.WriteFile(filepath.Join(m.Home, "may"), nil, 0o600)) },
	} {
		mend()
		err := p.Delete(t.Context(), ref(req))
		require.ErrorContains(t, err, "it is not clean after its reset: ")
		now := states(t, p)[m.Name]
		require.Equal(t, provider.MachinePossiblyUsed, now.State)
		require.Contains(t, now.Error, "dirty")
		_, err = p.Create(t.Context(), requestOn(m, "second", simple))
		require.ErrorIs(t, err, provider.ErrMachineTaken)
		require.False(t, provider.IsPermanent(err))
		i, err := p.Get(t.Context(), ref(req))
		require.NoError(t, err)
		require.Equal(t, provider.StatusError, i.Status)
	}
	require.NoError(t, os.Remove(filepath.Join(m.Home, "mark")))
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	second := requestOn(m, "second", simple)
	create(t, p, second)
	require.True(t, becomes(t, p, second).Ready)
}

// While the next incarnation is prepared, however long that takes, the machine answers.
func TestReset_whilePreparing(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], open(t, f, nil)
	goOn := filepath.Join(m.Home, "go-on")
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	req := requestOn(m, "slow", `{"prepare": "until test -e $HOME/go-on; do sleep 0.05; done", "reset": "true"}`)
	create(t, p, req)
	require.True(t, becomes(t, p, req).Ready)
	require.NoError(t, os.Remove(goOn))
	next := req
	next.Tags.Incarnation = 2
	for range 2 {
		_, err := p.Reset(t.Context(), next)
		require.NoError(t, err)
	}
	state, err := p.Ready(t.Context(), ref(req))
	require.NoError(t, err)
	require.False(t, state.Ready)
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	require.True(t, becomes(t, p, next).Ready)
	require.NoError(t, p.Delete(t.Context(), ref(req)))
}

// What runs on in the background, whatever it does about signals, ends with the reset.
func TestReset_endsProcesses(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], open(t, f, nil)
	req := requestOn(m, "busy", `{"prepare": "trap '' TERM HUP; setsid sleep 1000 >/dev/null 2>&1 &", "reset": "true"}`)
	create(t, p, req)
	require.True(t, becomes(t, p, req).Ready)
	mark := "PREWARM_MARK=" + req.Tags.WorkspaceID.String()
	require.NotEmpty(t, m.Processes(mark))
	next := req
	next.Tags.Incarnation = 2
	_, err := p.Reset(t.Context(), next)
	require.NoError(t, err)
	require.Empty(t, m.Processes(mark+".1"))
	require.True(t, becomes(t, p, next).Ready)
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	require.Empty(t, m.Processes(mark))
}

// Two replicas, and two installations, that want one machine at once: one gets it, the others are told.
func TestCreate_oneMachineAtOnce(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	replicas := []*hosts.Provider{open(t, f, nil), open(t, f, nil)}
	for round := range rounds(t, 3) {
		var all sync.WaitGroup
		requests, errs := make([]provider.CreateRequest, 6), make([]error, 6)
		for n := range requests {
			requests[n] = requestOn(f.Machines[0], "rival-"+string(rune('a'+n)), simple)
			all.Go(func() { _, errs[n] = replicas[n%2].Create(t.Context(), requests[n]) })
		}
		all.Wait()
		won := -1
		for n, err := range errs {
			if err == nil {
				require.Negative(t, won, "round %d: two have the machine", round)
				won = n
				continue
			}
			require.ErrorIs(t, err, provider.ErrMachineTaken)
		}
		require.GreaterOrEqual(t, won, 0)
		require.True(t, becomes(t, replicas[0], requests[won]).Ready)
		for n := range requests { // nobody deletes another's
			if n != won {
				require.NoError(t, replicas[n%2].Delete(t.Context(), ref(requests[n])))
			}
		}
		_, err := replicas[1].Get(t.Context(), ref(requests[won]))
		require.NoError(t, err)
		require.NoError(t, replicas[1].Delete(t.Context(), ref(requests[won])))
	}
}

// A full disk fails a create without taking the machine, and is said.
func TestCreate_fullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Fatal("/dev/full is not there")
	}
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], open(t, f, nil)
	dir := filepath.Join(m.Home, ".prewarm")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, "state.new"))) // where every write is one too many
	req := requestOn(m, "full", simple)
	_, err := p.Create(t.Context(), req)
	require.ErrorContains(t, err, "machine m00 ("+m.Address()+"): cannot write its state: ")
	require.Equal(t, provider.MachineUnused, states(t, p)[m.Name].State)
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	create(t, p, req) // what stood in the way went with the failure
	require.True(t, becomes(t, p, req).Ready)
	require.NoError(t, p.Delete(t.Context(), ref(req)))
}

// A preparation that fails, or takes too long, is told with its last words.
func TestPrepare_fails(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 2)
	p := open(t, f, nil)
	for n, tc := range []struct{ spec, says string }{
		{`{"prepare": "echo no such package >&2; exit 3", "reset": "true"}`, "prepare exited with 3: no such package"},
		{`{"prepare": "sleep 1000", "prepare_timeout": "1s", "reset": "true"}`, "prepare did not end within 1 s"},
	} {
		req := requestOn(f.Machines[n], "failing", tc.spec)
		create(t, p, req)
		state := becomes(t, p, req)
		require.True(t, state.Failed)
		require.Contains(t, state.Detail, tc.says)
		require.NoError(t, p.Delete(t.Context(), ref(req)))
	}
}

// Commands run in the workspace, with its environment; their arguments are on no command line until they run; and they end
// with whoever asked for them.
func TestExecAndLogs(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], open(t, f, nil)
	req := requestOn(m, "shell", `{"prepare": "echo preparing", "reset": "true", "environment": {"COLOR": "it's blue"}}`)
	req.Parameters = map[string]string{"region-a": "north"}
	create(t, p, req)
	require.True(t, becomes(t, p, req).Ready)

	var out, errs bytes.Buffer
	status, err := p.Exec(t.Context(), ref(req), provider.ExecRequest{
		Command: []string{"sh", "-c", `cat; echo "$COLOR $PARAM_REGION_A $MINE $1"; pwd; echo oops >&2; exit 7`, "sh", "a 'b' $c"},
		Env:     map[string]string{"MINE": "$HOME"}, Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs,
	})
	require.NoError(t, err)
	require.Equal(t, 7, status)
	require.Equal(t, "in\nit's blue north $HOME a 'b' $c\n"+filepath.Join(m.Home, ".prewarm/workspace")+"\n", out.String())
	require.Equal(t, "oops\n", errs.String())

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Exec(ctx, ref(req), provider.ExecRequest{Command: []string{"sleep", "1000"}, Env: map[string]string{"LONG": "1"}})
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(m.Processes("LONG=1")) > 0 }, deadline, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return len(m.Processes("LONG=1")) == 0 }, deadline, 10*time.Millisecond)

	out.Reset()
	_, err = p.Exec(t.Context(), ref(req), provider.ExecRequest{Command: []string{"test", "-t", "0"}, TTY: true, Stdout: &out})
	require.NoError(t, err)

	logs, err := p.Logs(t.Context(), ref(req), true)
	require.NoError(t, err)
	text := bufio.NewReader(logs)
	for line := ""; line != "preparing\n"; { // before the delete, which takes away what was not read yet
		line, err = text.ReadString('\n')
		require.NoError(t, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, text)
	}()
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	<-read // it ends with the workspace
	require.NoError(t, logs.Close())
	_, err = p.Logs(t.Context(), ref(req), false)
	require.ErrorIs(t, err, provider.ErrNotFound)
	_, err = p.Exec(t.Context(), ref(req), provider.ExecRequest{Command: []string{"true"}})
	require.ErrorIs(t, err, provider.ErrNotFound)
}
