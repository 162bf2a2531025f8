package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// A job that has changed is news to those that watch jobs. Forges report the same job several times, and late: that is no news.
func TestMerge_news(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	changed := func() (at time.Time) {
		t.Helper()
		require.NoError(t, w.store.Pool.QueryRow(t.Context(), "SELECT updated_at FROM forge_jobs").Scan(&at))
		return at
	}
	job := forge.Job{ID: 1, Attempt: 1, State: forge.Queued, Repository: "acme/shop", Labels: []string{"linux"}}
	w.merge(s, job)
	for _, step := range []struct {
		name string
		told func()
		news bool
	}{
		{"queued", func() {}, false},
		{"in progress", func() { job.State = forge.InProgress }, true},
		{"in progress again", func() {}, false},
		{"its runner", func() { job.RunnerID, job.RunnerName = 9, "prebuild-of-another" }, true},
		{"its runner again", func() {}, false},
		{"queued late", func() { job.State = forge.Queued }, false},
		{"completed", func() { job.State = forge.Completed }, true},
		{"completed again", func() {}, false},
		{"how it ended", func() { job.Conclusion = "failure" }, true},
		{"how it ended again", func() {}, false},
		{"completed late", func() { job.Conclusion = "" }, false},
	} {
		before := changed()
		step.told()
		w.merge(s, job)
		require.Equal(t, step.news, changed().After(before), step.name)
	}
}
