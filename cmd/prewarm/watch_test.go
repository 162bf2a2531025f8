package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// watching is a list --watch under way, whose looks the test decides on.
type watching struct {
	t      *testing.T
	server *fakeServer
	sh     *shell
	cancel context.CancelFunc
	status chan int
	stdout *os.File
	stderr *os.File
}

// watch starts to watch presets; it has looked once when this returns.
func watch(t *testing.T, args ...string) *watching {
	t.Helper()
	return watchList(t, "preset", args...)
}

// watchList starts to watch what that command lists.
func watchList(t *testing.T, command string, args ...string) *watching {
	t.Helper()
	w := &watching{t: t, server: newFakeServer(t, answers(t)), status: make(chan int, 1)}
	w.sh = newShell(t, w.server.URL)
	var stdout, stderr *os.File
	w.stdout, stdout = pipe(t)
	w.stderr, stderr = pipe(t)
	trap := w.sh.clock.Trap().TickerFunc("watch")
	defer trap.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w.cancel = cancel
	go func() {
		w.status <- w.sh.app(stdout, stderr).run(ctx, append([]string{command, "list", "--watch"}, args...))
		_, _ = stdout.Close(), stderr.Close()
	}()
	trap.MustWait(ctx).MustRelease(ctx)
	return w
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// look lets a second pass, and the watch look again.
func (w *watching) look() {
	w.t.Helper()
	w.sh.clock.Advance(time.Second).MustWait(w.t.Context())
}

func (w *watching) presets(presets ...sdk.Preset) {
	w.t.Helper()
	w.server.answer("GET /presets", answer{body: mustJSON(w.t, presets)})
}

// end interrupts the watch and returns all that it wrote.
func (w *watching) end() outcome {
	w.t.Helper()
	w.cancel()
	status := <-w.status
	stdout, _ := io.ReadAll(w.stdout)
	stderr, _ := io.ReadAll(w.stderr)
	return outcome{status, string(stdout), string(stderr)}
}

// A line for each preset that is new, changed or gone, and none while nothing happens.
func TestWatchWritesChanges(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.look()
	changed := testPreset
	changed.Actual, changed.Starting, changed.Eligible, changed.Reasons = 3, 0, 3, nil
	w.presets(changed, testPresets[2])
	w.look()
	w.look()
	golden(t, "testdata/golden/preset_watch.table", w.end().String())
}

// One array on one line for each change.
func TestWatchWritesJSON(t *testing.T) {
	t.Parallel()
	w := watch(t, "-o", "json")
	w.look()
	w.presets()
	w.look()
	w.look()
	got := w.end()
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	if got.status != 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], `[{"id":`) || lines[1] != "[]" {
		t.Error(got)
	}
}

// Jobs, runners and forges are watched as presets are: what changes by itself is no change.
func TestWatchForges(t *testing.T) {
	t.Parallel()
	job, runner, forge := testForgeJob, testRunner, testForge
	job.WaitS, job.State, job.Unserved, job.Template, job.Preset, job.Runner = 99, "in_progress", "", "runners", "linux", "prebuild-a"
	runner.StatusAt, runner.Status, runner.Job = testRunner.CreatedAt, "idle", nil
	forge.Queued, forge.Status.Error = 0, ""
	older, later, busier := testForgeJob, testRunner, testForge
	older.WaitS, later.StatusAt, later.Job = 61, testRunner.CreatedAt, &older
	busier.Status.RateRemaining--
	for command, test := range map[string]struct {
		route               string
		same, changed, none any
	}{
		"job": {
			"GET /forge-jobs",
			sdk.ForgeJobList{Jobs: []sdk.ForgeJob{older}},
			sdk.ForgeJobList{Jobs: []sdk.ForgeJob{job}},
			sdk.ForgeJobList{},
		},
		"runner": {
			"GET /runners",
			sdk.RunnerList{Runners: []sdk.Runner{later}},
			sdk.RunnerList{Runners: []sdk.Runner{runner}},
			sdk.RunnerList{},
		},
		"forge": {"GET /forges", []sdk.ForgeEntity{busier}, []sdk.ForgeEntity{forge}, []sdk.ForgeEntity{}},
	} {
		for _, format := range []string{"table", "json"} {
			t.Run(command+"."+format, func(t *testing.T) {
				t.Parallel()
				w := watchList(t, command, "-o", format)
				for _, state := range []any{test.same, test.changed, test.none} {
					w.server.answer(test.route, answer{body: mustJSON(t, state)})
					w.look()
				}
				golden(t, "testdata/golden/"+command+"_watch."+format, w.end().String())
			})
		}
	}
}

// A server that restarts is waited for, and reported once.
func TestWatchOutlivesTheServersAbsence(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.server.answer("GET /presets", answer{handle: func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusInternalServerError)
	}})
	w.look()
	w.look()
	w.presets()
	w.look()
	got := w.end()
	if got.status != 0 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "500") ||
		!strings.Contains(got.stdout, "quickstart/default is gone") {
		t.Error(got)
	}
}

func TestWatchEndsWhenRefused(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.server.answer("GET /presets", answer{status: 401, body: `{"detail":"the token was revoked"}`})
	w.look()
	status := <-w.status
	if stderr, _ := io.ReadAll(w.stderr); status != 1 || !strings.Contains(string(stderr), "the token was revoked") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// On a terminal the table is drawn in place, in colours unless NO_COLOR is set.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env    string
		colour bool
	}{"colour": {"TERM=xterm", true}, "NO_COLOR": {"NO_COLOR=1", false}, "dumb": {"TERM=dumb", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = ours.Close(), theirs.Close() }()
			server := newFakeServer(t, answers(t))
			sh := newShell(t, server.URL)
			sh.env = append(sh.env, test.env)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			trap := sh.clock.Trap().TickerFunc("watch")
			defer trap.Close()
			status := make(chan int, 1)
			go func() { status <- sh.app(theirs, io.Discard).run(ctx, []string{"preset", "list", "--watch"}) }()
			trap.MustWait(ctx).MustRelease(ctx)
			screen := readUntil(t, ours, "not a pool")
			sh.clock.Advance(time.Second).MustWait(ctx)
			screen += readUntil(t, ours, "not a pool")
			cancel()
			if got := <-status; got != 0 {
				t.Errorf("status %d", got)
			}
			if strings.Count(screen, "\x1b[H\x1b[J") != 2 || !strings.Contains(screen, "12:00:01") {
				t.Errorf("not drawn twice: %q", screen)
			}
			if strings.Contains(screen, string(yellow)) != test.colour {
				t.Errorf("colours are not %v: %q", test.colour, screen)
			}
			if strings.Contains(screen, "\x1b[31mevil") {
				t.Errorf("text of the server steers the terminal: %q", screen)
			}
		})
	}
}
