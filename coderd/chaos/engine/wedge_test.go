package engine_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// moments are those of a create at which the server is killed.
var moments = []struct {
	name   string
	answer bool
	wants  func() func(method, path string) bool
}{
	{"the create is on its way, and reaches the engine after the kill", false, create},
	{"the engine has created it, and the answer is on its way", true, create},
	{"it was created, and not started yet", false, start},
	{"it runs, and the answer is on its way", true, start},
	{"all is done at the engine, and not recorded", true, lastLook},
}

func create() func(method, path string) bool {
	return func(method, path string) bool {
		return method == "POST" && strings.Contains(path, "/containers/create")
	}
}

func start() func(method, path string) bool {
	return func(method, path string) bool { return method == "POST" && startOf.MatchString(path) }
}

var startOf = regexp.MustCompile("/containers/([0-9a-f]{64})/start")

// lastLook is the look at a container after its start: the engine has no more to say before the database is told.
func lastLook() func(method, path string) bool {
	started := "none"
	return func(method, path string) bool {
		if id := startOf.FindStringSubmatch(path); method == "POST" && id != nil {
			started = id[1]
		}
		return method == "GET" && strings.Contains(path, "/containers/json") && strings.Contains(path, started)
	}
}

// I4, I6: a create that succeeded and was never recorded is nothing that anybody has to see to. The server is killed
// (SIGKILL) between the engine and the database; whoever comes next finds the container by its name and tags, makes none
// a second time, and fills the pool.
func TestWedge(t *testing.T) {
	t.Parallel()
	r := random(t)
	n, thorough := rounds(t, 2)
	var runs []int // indices of moments
	for i := range moments {
		runs = append(runs, i)
	}
	r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	if thorough {
		for len(runs) < min(n/10, 20) {
			runs = append(runs, r.IntN(len(moments)))
		}
	} else {
		runs = runs[:min(n, len(runs))]
	}
	engine := dockertest.Start(t)
	engine.Image(t)
	in, wire := newInstallation(t, engine, false), newWire(t, engine)
	in.host = wire.host
	in.start()
	in.pools(1, 2, 0)
	nothing := map[string]bool{}
	eventually(t, "the pool fills", patience, func() string { return in.unsettled(nothing, nil) })
	births := watchBirths(t, engine)
	table := "\n| killed when | full again after | containers made for the pool of 2 |\n| --- | --- | --- |\n"
	for i, run := range runs {
		m := moments[run]
		before := births.all()
		trap := wire.set(m.answer, m.wants())
		in.pools(i+2, 2, 0) // of another version, so that two are made
		select {
		case <-trap.sprung:
		case <-time.After(patience):
			require.Fail(t, "never reached", m.name)
		}
		in.servers[len(in.servers)-1].Kill()
		killed := time.Now()
		close(trap.resume)
		in.start()
		eventually(t, m.name+": the pool is full, and nothing is left", patience, func() string { return in.unsettled(nothing, nil) })
		made := 0
		for workspace, times := range births.all() {
			if before[workspace] == 0 {
				made += times
			}
			assert.Equal(t, 1, times, "%s: containers made for workspace %s", m.name, workspace)
		}
		table += fmt.Sprintf("| %s | %.1f s | %d |\n", m.name, time.Since(killed).Seconds(), made)
	}
	t.Log(table)
}

// births counts the containers that the engine has created, by the workspace of their labels.
type births struct {
	mu    sync.Mutex
	times map[string]int
}

func watchBirths(t *testing.T, engine *dockertest.Engine) *births {
	t.Helper()
	b := &births{times: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	events := engine.Client.Events(ctx, client.EventsListOptions{
		Filters: make(client.Filters).Add("type", "container").Add("event", "create"),
	})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case err := <-events.Err:
				if ctx.Err() == nil {
					t.Errorf("the engine's events ended: %v", err)
				}
				return
			case e := <-events.Messages:
				b.mu.Lock()
				b.times[e.Actor.Attributes[labelWorkspace]]++
				b.mu.Unlock()
			}
		}
	}()
	return b
}

func (b *births) all() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Collect(maps.All(b.times))
}
