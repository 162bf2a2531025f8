package terraform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
)

// cloud is a directory in which modules make files: what an apply has made is seen there, whatever its state says.
type cloud struct {
	*world
	provider.Provider
	installation uuid.UUID
	dir          string
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{world: newWorld(t), installation: uuid.New()}
	c.Provider = c.world.provider(c.installation)
	var err error
	c.dir, err = os.MkdirTemp("", "prewarm-cloud-") // runs have users of their own, who cannot enter what t.TempDir makes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(c.dir)) })
	require.NoError(t, os.Chmod(c.dir, 0o777))
	return c
}

// machine is a resource that makes a file of its name and then runs commands. Its broom removes the file: what a resource has for its
// own destruction does not run where its creation was cut off.
func (c *cloud) machine(name, commands string) string {
	return fmt.Sprintf(`
		resource "terraform_data" "%[1]s_broom" {
		  input = "%[2]s/%[1]s"
		  provisioner "local-exec" {
		    when    = destroy
		    command = "rm -f ${self.output}"
		  }
		}
		resource "terraform_data" %[1]q {
		  input = terraform_data.%[1]s_broom.output
		  provisioner "local-exec" { command = "touch ${self.output}; %[3]s" }
		}
	`, name, c.dir, commands)
}

func (c *cloud) request(name, main string, idempotent bool) provider.CreateRequest {
	c.t.Helper()
	spec, err := json.Marshal(map[string]any{"module": map[string]string{"main.tf": main}, "idempotent": idempotent})
	require.NoError(c.t, err)
	return provider.CreateRequest{
		Name: name, Spec: spec, Tags: provider.Tags{Installation: c.installation, WorkspaceID: uuid.New(), Incarnation: 1},
	}
}

func refTo(req provider.CreateRequest) provider.Ref {
	return provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID}
}

// files are the names of what there is.
func (c *cloud) files() (names []string) {
	c.t.Helper()
	entries, err := os.ReadDir(c.dir)
	require.NoError(c.t, err)
	for _, entry := range entries {
		if entry.Name() != held {
			names = append(names, entry.Name())
		}
	}
	return names
}

// held is a file that holds machines up for as long as it is there (hold).
const held = ".held"

// hold returns the command that is held up. Until goOn is called it has no end.
func (c *cloud) hold() (command string, goOn func()) {
	c.t.Helper()
	file := filepath.Join(c.dir, held)
	require.NoError(c.t, os.WriteFile(file, nil, 0o644))
	return "test ! -e " + file + " || sleep 1000", func() { require.NoError(c.t, os.Remove(file)) }
}

// kill kills the Terraform that runs, as the system does that has no memory left. It says whether there was one.
func (c *cloud) kill() (killed bool) {
	c.t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(c.t, err)
	for _, p := range all {
		cwd, cwdErr := p.Cwd()
		exe, exeErr := p.Executable()
		if cwdErr == nil && exeErr == nil && strings.HasPrefix(cwd, c.root+"/") && exe == c.Program {
			killed = syscall.Kill(p.PID, syscall.SIGKILL) == nil || killed
		}
	}
	return killed
}

// createKilled creates until a file is there, and kills Terraform then.
func (c *cloud) createKilled(req provider.CreateRequest, file string) {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { _, err := c.Create(c.t.Context(), req); done <- err }()
	require.Eventually(c.t, func() bool { return len(done) > 0 || slices.Contains(c.files(), file) }, eventually, poll)
	require.Empty(c.t, done, "the create has ended")
	require.True(c.t, c.kill())
	err := <-done
	var cut *terraform.CutOffError
	require.ErrorAs(c.t, err, &cut)
	require.False(c.t, provider.IsPermanent(err), "the state may have it all: the next attempt looks")
}

// one is the only workspace that is listed.
func (c *cloud) one() provider.Instance {
	c.t.Helper()
	all, err := c.List(c.t.Context(), c.installation)
	require.NoError(c.t, err)
	require.Len(c.t, all, 1)
	return all[0]
}

// A create whose apply was killed is not tried again, as everything could be made twice. The error names what to look for, and the
// workspace stays until a person ends it.
func TestCreate_killed(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	command, goOn := c.hold()
	req := c.request("killed", c.machine("quick", "true")+c.machine("slow", command), false)
	c.createKilled(req, "slow")
	goOn()

	at := c.one()
	require.Equal(t, provider.StatusError, at.Status)
	require.Equal(t, req.Tags.WorkspaceID, at.Tags.WorkspaceID)
	for _, what := range []string{
		"terraform_data.quick,", "terraform_data.quick_broom,", "terraform_data.slow,", "terraform_data.slow_broom.", "prewarm workspace delete killed --force",
	} {
		require.Contains(t, at.Fault, what)
	}
	got, err := c.Get(t.Context(), refTo(req))
	require.NoError(t, err)
	require.Equal(t, at.Fault, got.Fault)

	before := c.files()
	for range 2 {
		_, err = c.Create(t.Context(), req)
		require.ErrorContains(t, err, at.Fault)
		require.True(t, provider.IsPermanent(err))
		require.ErrorContains(t, c.Delete(t.Context(), refTo(req)), at.Fault)
		require.Equal(t, provider.StatusError, c.one().Status)
	}
	require.Equal(t, before, c.files(), "nothing was made")
}

// What an apply was to create that was killed is made again where the spec says that this makes no second one: by the next create, and
// before it is deleted.
func TestCreate_killedIdempotent(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for _, created := range []bool{true, false} {
		command, goOn := c.hold()
		req := c.request("killed-"+strconv.FormatBool(created), c.machine("machine", command), true)
		c.createKilled(req, "machine")
		require.Equal(t, provider.StatusError, c.one().Status)
		goOn()
		if created {
			_, err := c.Create(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, provider.StatusRunning, c.one().Status)
			require.Equal(t, []string{"machine"}, c.files())
		}
		require.NoError(t, c.Delete(t.Context(), refTo(req)))
		require.Empty(t, c.files())
		all, err := c.List(t.Context(), c.installation)
		require.NoError(t, err)
		require.Empty(t, all)
	}
}

// An apply that fails by itself has stored what it made, and leaves no doubt; one whose state could not be stored, and one whose plugin
// died, do.
func TestCreate_fails(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		program string // runs before Terraform does, for its apply
		unsure  bool
	}{
		"by itself":   {":", false},
		"no state":    {"export TF_HTTP_UPDATE_METHOD=PUT", true},
		"plugin died": {`echo "Error: Plugin did not respond" >&2; exit 1`, true},
		"it crashes":  {"exit 11", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			program := filepath.Join(c.root, "terraform")
			executable(t, program, fmt.Sprintf("if [ $1 = apply ]; then\n%s\nfi\nexec %s \"$@\"", of.program, c.Program), 0o755)
			c.Program = program
			later := `resource "terraform_data" "later" { depends_on = [terraform_data.machine] }`
			req := c.request("fails", c.machine("machine", "exit 1")+later, false)
			_, err := c.Create(t.Context(), req)
			require.Error(t, err)
			is, err := c.states.Of(t.Context(), req.Tags.WorkspaceID)
			require.NoError(t, err)
			require.Equal(t, of.unsure, len(is.Unsure) > 0, is.Unsure)
			err = c.Delete(t.Context(), refTo(req))
			if of.unsure {
				require.ErrorContains(t, err, "terraform_data.machine")
			} else {
				require.NoError(t, err)
				require.Empty(t, c.files())
			}
		})
	}
}

// named are the addresses of what the newest state of a workspace has, and of what is unsure of it.
func (c *cloud) named(req provider.CreateRequest) []string {
	c.t.Helper()
	run, err := c.states.BeginAlone(c.t.Context(), req.Tags.WorkspaceID, req.Name, req.Tags.Incarnation)
	require.NoError(c.t, err)
	names := c.resourcesOf(run)
	if is, err := c.states.Of(c.t.Context(), req.Tags.WorkspaceID); err == nil {
		for _, address := range is.Unsure {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(address, "terraform_data."), " (its replacement)"))
		}
	}
	return names
}

// holds requires that all there is is named, by a state or as unsure, and that no run has left its directory.
func (c *cloud) holds(req provider.CreateRequest, after string) {
	c.t.Helper()
	names := c.named(req)
	for _, file := range c.files() {
		require.True(c.t, slices.Contains(names, file) || slices.Contains(names, file+"_broom"), "after %s nothing names %s: %s", after, file, names)
	}
	left, err := os.ReadDir(c.root)
	require.NoError(c.t, err)
	require.Empty(c.t, left, "after %s", after)
}

// cut runs a call and cuts it off at some point, in one of three ways. It says which.
func (c *cloud) cut(r *rand.Rand, most time.Duration, req provider.CreateRequest, call func(context.Context) error) (way string) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	point, reached := context.WithTimeout(ctx, time.Duration(r.Int64N(int64(most))))
	defer reached()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	select {
	case <-done:
		return "its end"
	case <-point.Done():
	}
	switch way = []string{"kill", "cancel", "another run"}[r.IntN(3)]; way {
	case "kill":
		c.kill()
	case "cancel":
		cancel()
	default: // a worker that lost its lease
		_, err := c.states.BeginAlone(c.t.Context(), req.Tags.WorkspaceID, req.Name, req.Tags.Incarnation)
		require.NoError(c.t, err)
	}
	<-done
	return way
}

// Creates and deletes are cut off anywhere, and done again: whatever there is then is named by a state or as unsure, a create that goes on
// makes all of it, a delete that succeeds leaves nothing, and no lock and no directory of a run is left.
func TestKills(t *testing.T) {
	t.Parallel()
	rounds, seed := number(t, "PREWARM_ROUNDS", 4), number(t, "PREWARM_SEED", rand.Uint64())
	t.Logf("PREWARM_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	c := newCloud(t)
	main := c.machine("first", "sleep 0.2") + c.machine("second", "sleep 0.1") // so that some are cut off while they are made
	tally := map[string]int{}
	var creating, deleting time.Duration
	var refused uint64
	for round := range rounds + 1 {
		req := c.request(fmt.Sprintf("round-%d", round), main, false)
		create := func(ctx context.Context) error { _, err := c.Create(ctx, req); return err }
		remove := func(ctx context.Context) error { return c.Delete(ctx, refTo(req)) }
		if round == 0 { // how long they take
			begun := c.Clock.Now()
			require.NoError(t, create(t.Context()))
			made := c.Clock.Now()
			require.NoError(t, remove(t.Context()))
			creating, deleting = made.Sub(begun), c.Clock.Since(made)
			continue
		}
		way := c.cut(r, creating, req, create)
		c.holds(req, "a create cut off by "+way)
		err := create(t.Context())
		c.holds(req, "a create after "+way)
		unsure := err != nil
		if unsure {
			refused++
			require.True(t, provider.IsPermanent(err), err)
			require.Contains(t, err.Error(), "an apply was cut off")
		} else {
			require.Equal(t, []string{"first", "second"}, c.files())
			require.Equal(t, provider.StatusRunning, c.one().Status)
		}
		tally[fmt.Sprintf("create, %s, refused: %t", way, unsure)]++
		way = c.cut(r, deleting, req, remove)
		c.holds(req, "a delete cut off by "+way)
		tally["delete, "+way]++
		err = remove(t.Context())
		c.holds(req, "a delete after "+way)
		if unsure {
			require.ErrorContains(t, err, "an apply was cut off")
			require.Equal(t, provider.StatusError, c.one().Status)
			for _, file := range c.files() { // what a person does
				require.NoError(t, os.Remove(filepath.Join(c.dir, file)))
			}
			_, err := c.states.Store.Pool.Exec(t.Context(), "UPDATE terraform_runs SET creating = NULL")
			require.NoError(t, err)
		} else {
			require.NoError(t, err)
		}
		require.Empty(t, c.files())
		all, err := c.List(t.Context(), c.installation)
		require.NoError(t, err)
		require.Empty(t, all)
		var locked int
		require.NoError(t, c.states.Store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM terraform_runs WHERE lock_id IS NOT NULL").Scan(&locked))
		require.Zero(t, locked)
	}
	t.Logf("a create takes %s, a delete %s: %v", creating, deleting, tally)
	if rounds >= 100 {
		require.Positive(t, refused, "no apply was cut off")
		require.Less(t, refused, rounds, "no create went on")
	}
}

// number is that of a variable, or else another.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}
