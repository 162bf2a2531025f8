package replay_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
)

// end is what every order comes to. 61004 and 61024/2 were meant for small, and taken by a runner of large.
var end = []string{
	"acme 61001/1 completed success small on ours",
	"acme 61002/1 completed cancelled",
	"acme 61003/1 completed failure small on ours",
	"acme 61004/1 completed success large on ours",
	"acme 61005/1 completed success old-box-7",
	"acme 61006/1 waiting",
	"acme 61007/1 completed success small on ours",
	"acme 61008/1 queued no preset has the label gpu: give it to one, or change the workflow (runs-on)",
	"acme 61009/1 in_progress large on ours",
	"acme 61013/2 completed success small on ours",
	"acme 61020/1 completed success small on ours",
	"acme 61021/1 completed success small on ours",
	"acme 61022/1 completed success small on ours",
	"acme 61023/1 completed cancelled small on ours",
	"acme 61024/1 completed success small on ours",
	"acme 61024/2 completed success large on ours",
	"acme has a runner large,linux,self-hosted active",
	"acme has a runner large,linux,self-hosted idle",
	"acme has a runner linux,self-hosted idle",
	"tea 32/1 completed cancelled",
	"tea 33/1 waiting",
	"tea 34/1 completed success tea on ours",
	"tea 35/1 queued no preset has the label windows: give it to one, or change the workflow (runs-on)",
	"tea 41/1 completed success tea on ours",
	"tea 42/1 completed success tea on ours",
	"tea 43/1 completed success tea on ours",
	"tea 61001/1 completed failure tea on ours",
	"tea 61001/2 completed success tea on ours",
	"tea has a runner linux idle",
	"large ready 1",
	"large claimed 1",
	"small ready 1",
	"tea ready 1",
}

// The recorded deliveries, in 200 orders (20 with the race detector, which takes its time), repeated, and half of them cut
// short, against the whole server side: the same end; at no commit more runners than jobs and the minimum idle justify; no
// job without a runner; no runner deleted at its job. PREWARM_SEED=n plays one order only, PREWARM_ROUNDS=n the first n.
func TestReplay(t *testing.T) {
	t.Parallel()
	const atOnce, longest = 16, 5 * time.Minute
	w := newWorld(t)
	recordings := func(name string, kind forge.Kind) []act {
		return recorded(t, kind, "../inbox/testdata/"+name+".json", "testdata/"+name+".json")
	}
	sources := []source{
		{name: "acme", kind: github.Kind, scope: forge.Organization, path: "acme", story: recordings("github", github.Kind)},
		{name: "tea", kind: gitea.Kind, gitea: true, scope: forge.Repository, path: "acme/tools", story: recordings("gitea", gitea.Kind)},
	}
	seeds := make([]uint64, orders)
	for i := range seeds {
		seeds[i] = uint64(i) + 1
	}
	if one, err := strconv.ParseUint(os.Getenv("PREWARM_SEED"), 10, 64); err == nil {
		seeds = []uint64{one}
	}
	if few, err := strconv.Atoi(os.Getenv("PREWARM_ROUNDS")); err == nil && few > 0 && few < orders {
		seeds = seeds[:few]
	}
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, seed := range seeds {
		o := w.open(seed, sources)
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), longest)
			defer cancel()
			if err := o.run(ctx); err != nil {
				assert.NoError(t, err, "PREWARM_SEED=%d", seed)
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	require.Empty(t, w.faults, "what was deleted")
	judged, err := w.list("SELECT fault FROM judged ORDER BY at LIMIT 20")
	require.NoError(t, err)
	require.Empty(t, judged, "capacity, at the commit of each pass that created")
	failed, err := w.list("SELECT last_error FROM preset_failures")
	require.NoError(t, err)
	require.Empty(t, failed)
	refused := 0
	for _, m := range w.forges {
		refused += m.refused
	}
	made, err := w.list("SELECT count(*)::text FROM workspaces")
	require.NoError(t, err)
	t.Logf("%d orders: %s workspaces, %d removals refused for a job", len(seeds), made[0], refused)
}

func (o *order) run(ctx context.Context) error {
	if err := o.play(ctx); err != nil {
		return err
	}
	want := end
	if o.cut {
		want = slices.DeleteFunc(slices.Clone(end), unheard)
	}
	if err := o.ends(ctx, want); err != nil {
		return err
	}
	return o.close(ctx)
}

// unheard is what is known of no Gitea that did not tell: what is over there, and what is not yet demand.
func unheard(line string) bool {
	return strings.HasPrefix(line, "tea ") && (strings.Contains(line, " completed ") || strings.HasSuffix(line, " waiting"))
}

// close deletes the template while a job runs, which has its runner to the end; then all is gone.
func (o *order) close(ctx context.Context) error {
	w := o.world
	made, err := w.list("SELECT count(*)::text FROM workspaces WHERE template_id = $1", o.template)
	if err != nil {
		return err
	}
	// Each job may have had one made for it, and have had another one replaced.
	if n, most := made[0], len(pools)+2*len(o.jobs()); len(n) > 3 || number(n) > most {
		return fmt.Errorf("%s workspaces were made, for %d jobs", n, len(o.jobs()))
	}
	w.exec("UPDATE templates SET deleted_at = now() WHERE id = $1", o.template)
	o.nudge()
	live := func() ([]string, error) {
		return w.list(`SELECT `+held+` FROM workspaces w WHERE w.template_id = $1 AND w.state <> 'deleted'`, o.template)
	}
	if err := until(ctx, live, "claimed"); err != nil {
		return err
	}
	hub := o.at[0]
	last := hub.story[0]
	for _, a := range hub.story {
		if a.job.ID == 61009 && a.job.State == forge.InProgress {
			last = a
		}
	}
	d, ok := hub.memory.finish(last)
	if !ok {
		return fmt.Errorf("job 61009 has no runner at the end")
	}
	if _, err := w.replicas[0].Inbox.Accept(ctx, hub.entity, d.header, d.body); err != nil {
		return err
	}
	if err := until(ctx, live); err != nil {
		return err
	}
	for _, p := range o.at {
		w.exec("UPDATE forge_entities SET deleted_at = now() WHERE id = $1", p.id)
	}
	return nil
}

func number(s string) int { n, _ := strconv.Atoi(s); return n }

// jobs are the attempts that the story has.
func (o *order) jobs() map[string]bool {
	jobs := map[string]bool{}
	for _, p := range o.at {
		for _, a := range p.story {
			if a.job.ID != 0 {
				jobs[fmt.Sprintf("%s %d/%d", p.name, a.job.ID, a.job.Attempt)] = true
			}
		}
	}
	return jobs
}

func until(ctx context.Context, read func() ([]string, error), want ...string) error {
	ticker := time.NewTicker(40 * time.Millisecond)
	defer ticker.Stop()
	for {
		got, err := read()
		if err != nil || slices.Equal(got, want) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("there are %v in the end, and not %v", got, want)
		}
	}
}
