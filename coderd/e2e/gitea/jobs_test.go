package gitea_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	forges "github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// onPush is a workflow that runs when its own file is pushed.
func onPush(file, rest string) string {
	return fmt.Sprintf("on: {push: {paths: [%q]}}\n%s", file, rest)
}

func jobsOf(names []string, labels string, steps ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "  %s:\n    runs-on: %s\n    steps:\n", name, labels)
		for _, s := range steps {
			fmt.Fprintf(&b, "      - run: %s\n", s)
		}
	}
	return b.String()
}

// The jobs of a real Gitea run on runners that Prewarm keeps warm.
func TestGitea_jobs(t *testing.T) {
	t.Parallel()
	f := startForge(t)
	f.repository(t, "shop")
	w := startWorld(t, f)
	w.connect(t)
	w.apply(t, 2)
	idle := w.warm(t, 2)

	w.push(t, idle)
	w.again(t)
	w.cancelled(t)
	w.outage(t)
	w.ended(t)
}

// push: three jobs at once, with two idle runners. Whoever asks Gitea first gets a job, one that was idle or one that was made
// for the jobs that wait; what has had its job is gone, and two are idle again.
func (w *world) push(t *testing.T, idle []string) {
	t.Helper()
	for round := range 3 {
		file := fmt.Sprintf(".gitea/workflows/build%d.yaml", round)
		w.forge.push(t, "shop", file, onPush(file, "jobs:\n"+jobsOf([]string{"a", "b", "c"}, "[self-hosted, linux]",
			`echo "built by $RUNNER_NAME"`, "sleep 6")))
		began := time.Now()
		started := map[int64]time.Duration{}
		until(t, "three jobs have ended", func() bool {
			w.look(t)
			if len(w.forge.jobs(t, "shop")) < 3*(round+1) {
				return false
			}
			ended := 0
			for _, j := range w.forge.newest(t, 3) {
				if _, known := started[j.ID]; !known && (j.Status == "in_progress" || j.Status == "completed") {
					started[j.ID] = time.Since(began)
				}
				if j.Status == "completed" {
					ended++
				}
			}
			return ended == 3
		})
		used := map[string]bool{}
		for _, j := range w.forge.newest(t, 3) {
			require.Equal(t, "success", j.Conclusion)
			require.NotContains(t, used, j.RunnerName, "a runner has one job")
			used[j.RunnerName] = true
			until(t, "Prewarm knows of the end of the job", func() bool {
				all := w.attempts(t)[j.ID]
				return len(all) == 1 && all[0].State == "completed" && all[0].Conclusion == "success"
			})
			known := w.attempts(t)[j.ID][0]
			require.Equal(t, j.RunnerName, known.Runner)
			require.NotNil(t, known.Workspace, "the runner is one of Prewarm's")
			require.Equal(t, 1, known.Attempt)
			require.Contains(t, w.claimed, j.RunnerName, "its workspace was claimed while it ran")
			t.Logf("round %d, job %s on %s (idle before: %t): started %s after the push, %.0f s by Gitea's clock", round, j.Name,
				j.RunnerName, slices.Contains(idle, j.RunnerName), started[j.ID].Round(10*time.Millisecond), known.WaitS)
		}
		idle = w.warm(t, 2)
		for _, name := range idle {
			require.NotContains(t, used, name, "a runner that had its job is not used again")
		}
	}
}

// newest are the last n jobs.
func (f *forge) newest(t *testing.T, n int) []job {
	t.Helper()
	all := f.jobs(t, "shop")
	slices.SortFunc(all, func(a, b job) int { return int(b.ID - a.ID) })
	return all[:min(n, len(all))]
}

// again: a job that is run again is another attempt, under the same number.
func (w *world) again(t *testing.T) {
	t.Helper()
	one := w.forge.newest(t, 1)[0]
	began := time.Now()
	w.forge.api(t, http.MethodPost, fmt.Sprintf("/repos/acme/shop/actions/runs/%d/jobs/%d/rerun", one.RunID, one.ID), nil)
	until(t, "the second attempt has ended", func() bool {
		all := w.attempts(t)[one.ID]
		return len(all) == 2 && all[0].State == "completed"
	})
	all := w.attempts(t)[one.ID]
	require.Equal(t, []int{2, 1}, []int{all[0].Attempt, all[1].Attempt})
	require.NotEqual(t, all[0].Runner, all[1].Runner)
	require.Equal(t, "success", all[0].Conclusion)
	require.Less(t, all[0].WaitS, time.Since(began).Seconds(), "it waits since it was run again")
	w.warm(t, 2)
}

// cancelled: a busy runner is not removed; a job that is cancelled lets it go, and one that nothing can serve says so.
func (w *world) cancelled(t *testing.T) {
	t.Helper()
	const file = ".gitea/workflows/slow.yaml"
	const group = "concurrency: {group: slow, cancel-in-progress: true}\njobs:\n"
	w.forge.push(t, "shop", file, onPush(file, group+jobsOf([]string{"slow"}, "[self-hosted, linux]", "sleep 150")+
		jobsOf([]string{"nobody"}, "[gpu]", "true")))
	var slow, nobody sdk.ForgeJob
	until(t, "the slow job is claimed, and the other not served", func() bool {
		for _, all := range w.attempts(t) {
			switch all[0].Name {
			case "slow":
				slow = all[0]
			case "nobody":
				nobody = all[0]
			}
		}
		return slow.State == "in_progress" && slices.Contains(w.in(t, "claimed"), slow.Runner) && nobody.Unserved != ""
	})
	t.Logf("job %s is not served: %s", nobody.Name, nobody.Unserved)

	client, err := gitea.Kind.Connect(forges.Connection{
		URL: w.forge.url, Scope: forges.Repository, Path: "acme/shop", Token: w.forge.token,
	})
	require.NoError(t, err)
	busy, err := client.RunnerNamed(t.Context(), slow.Runner)
	require.NoError(t, err)
	require.Equal(t, forges.Active, busy.Status)
	require.ErrorIs(t, client.RemoveRunner(t.Context(), busy.ID), forges.ErrBusy)

	w.forge.replace(t, file, onPush(file, group+jobsOf([]string{"quick"}, "[self-hosted, linux]", "true")))
	until(t, "both are cancelled", func() bool {
		all := w.attempts(t)
		s, n := all[slow.JobID][0], all[nobody.JobID][0]
		return s.State == "completed" && s.Conclusion == "cancelled" && n.State == "completed" && n.Conclusion == "cancelled"
	})
	until(t, "what was pushed after has ended", func() bool {
		last := w.forge.newest(t, 1)[0]
		return last.Name == "quick" && last.Conclusion == "success" && len(w.attempts(t)[last.ID]) == 1 && w.attempts(t)[last.ID][0].State == "completed"
	})
	require.NotContains(t, w.warm(t, 2), slow.Runner)
}

// replace pushes another content of a file.
func (f *forge) replace(t *testing.T, path, content string) {
	t.Helper()
	was := into[struct {
		SHA string `json:"sha"`
	}](t, f, http.MethodGet, "/repos/acme/shop/contents/"+path, nil)
	f.api(t, http.MethodPut, "/repos/acme/shop/contents/"+path, map[string]any{
		"content": []byte(content), "message": "Change " + path, "branch": "main", "sha": was.SHA,
	})
}

// outage: runners that were idle take jobs while no server is there. What waits is found when one is again.
func (w *world) outage(t *testing.T) {
	t.Helper()
	idle := w.warm(t, 2)
	require.Zero(t, w.Stop())
	before := len(w.forge.jobs(t, "shop"))
	const file = ".gitea/workflows/unheard.yaml"
	w.forge.push(t, "shop", file, onPush(file, "jobs:\n"+jobsOf([]string{"d", "e", "g"}, "[self-hosted, linux]", "sleep 6")))
	until(t, "two jobs have ended without a server", func() bool {
		if len(w.forge.jobs(t, "shop")) < before+3 {
			return false
		}
		ended := 0
		for _, j := range w.forge.newest(t, 3) {
			if j.Status == "completed" && slices.Contains(idle, j.RunnerName) {
				ended++
			}
		}
		return ended == 2
	})
	began := time.Now()
	w.Server = e2etest.Start(t, w.options)
	until(t, "the third has ended too", func() bool {
		return !slices.ContainsFunc(w.forge.newest(t, 3), func(j job) bool { return j.Status != "completed" })
	})
	t.Logf("the third job ended %s after the start", time.Since(began).Round(100*time.Millisecond))
	for _, j := range w.forge.newest(t, 3) {
		require.Equal(t, "success", j.Conclusion)
		if slices.Contains(idle, j.RunnerName) {
			continue
		}
		until(t, "Prewarm knows of it", func() bool {
			all := w.attempts(t)[j.ID]
			return len(all) == 1 && all[0].State == "completed" && all[0].Runner == j.RunnerName
		})
	}
	for _, name := range w.warm(t, 2) {
		require.NotContains(t, idle, name)
	}
}

// ended: fewer are idle when fewer are wanted, and nothing is left at Gitea in the end.
func (w *world) ended(t *testing.T) {
	t.Helper()
	w.apply(t, 1)
	w.warm(t, 1)
	w.apply(t, 0)
	w.warm(t, 0)
	w.prewarm(t, "forge", "webhook", "remove", "shop")
	require.JSONEq(t, "[]", string(w.forge.api(t, http.MethodGet, "/repos/acme/shop/hooks", nil)))
	ctx := context.WithoutCancel(t.Context())
	status, err := w.Client.Forge(ctx, "shop")
	require.NoError(t, err)
	said, err := json.Marshal(status)
	require.NoError(t, err)
	t.Logf("in the end: %s", said)
	require.Empty(t, status.Status.Error)
	require.Zero(t, status.Queued+status.InProgress+status.Runners)
}
