package forgetest_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
)

// TestRace: runners are removed while jobs are given away. Each either goes or does a job, and none goes with one.
func TestRace(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const n = 30
			w := start(t, kind, forge.Organization, forgetest.Options{})
			ended := make([]<-chan error, n)
			for i := range n {
				ended[i] = w.run(t, fmt.Sprintf("r%d", i), "linux")
			}
			eventually(t, func() bool { return w.Idle() == n }, "all are idle")
			all, err := w.client.Runners(t.Context())
			require.NoError(t, err)
			go func() {
				for range n {
					w.Queue(forgetest.Work{Labels: []string{"linux"}, For: time.Second})
				}
			}()
			removed := make(chan error, n)
			for _, r := range all {
				go func() { removed <- w.client.RemoveRunner(t.Context(), r.ID) }()
			}
			gone := 0
			for range n {
				if err := <-removed; err == nil {
					gone++
				} else if !errors.Is(err, forge.ErrNotFound) {
					require.ErrorIs(t, err, forge.ErrBusy)
				}
			}
			worked := 0
			for _, e := range ended {
				if err := <-e; err == nil {
					worked++
				}
			}
			assert.Equal(t, n, gone+worked)
			assert.Empty(t, w.Judge().RemovedBusy)
			assert.Empty(t, w.Judge().KilledBusy)
		})
	}
}

// TestGivenInBetween: a job is given away right before the removal. Where the runner has it, nothing was done; or it went
// without.
func TestGivenInBetween(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var w *world
			w = start(t, kind, forge.Organization, forgetest.Options{Before: func(r *http.Request) {
				if r.Method == http.MethodDelete {
					w.Queue(forgetest.Work{Labels: []string{"linux"}})
				}
			}})
			ended := w.run(t, "one", "linux")
			eventually(t, func() bool { return w.Idle() == 1 }, "idle")
			r, err := w.client.RunnerNamed(t.Context(), "one")
			require.NoError(t, err)
			w.work.hold.Lock() // the job is not over before the removal is answered
			err = w.client.RemoveRunner(t.Context(), r.ID)
			w.work.hold.Unlock()
			if kind == "github" {
				require.ErrorIs(t, err, forge.ErrBusy)
				require.NoError(t, <-ended)
				assert.Equal(t, 1, w.Judge().RefusedBusy)
			} else {
				require.NoError(t, err)
				require.Error(t, <-ended)
				assert.Equal(t, forge.Queued, w.Records()[0].State)
			}
			assert.Empty(t, w.Judge().RemovedBusy)
			assert.Empty(t, w.Judge().KilledBusy)
		})
	}
}
