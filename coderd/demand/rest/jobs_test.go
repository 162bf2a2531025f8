package rest_test

import (
	"strings"
	"testing"

	"github.com/google/go-github/v92/github"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// TestJob_border: a forge is believed as far as its job can be shown and compared, and no further.
func TestJob_border(t *testing.T) {
	t.Parallel()
	read := func(w github.WorkflowJob) (forge.Job, error) {
		w.ID = new(int64(1))
		return rest.Job(&w, "acme/app", forge.Queued)
	}
	for address, want := range map[string]string{
		"https://github.com/acme/app/actions/runs/1/job/2": "https://github.com/acme/app/actions/runs/1/job/2",
		"http://gitea.local:3000/jobs/1":                   "http://gitea.local:3000/jobs/1",
		"javascript:alert(1)":                              "",
		"JavaScript://x/%0aalert(1)":                       "",
		"data:text/html,x":                                 "",
		"//evil.example/x":                                 "",
		"https:":                                           "",
		"https://x/\x1b[2J":                                "",
	} {
		j, err := read(github.WorkflowJob{HTMLURL: &address})
		require.NoError(t, err)
		assert.Equal(t, want, j.URL, address)
	}
	_, err := read(github.WorkflowJob{Labels: []string{strings.Repeat("x", 257)}})
	require.ErrorContains(t, err, "labels")
	_, err = read(github.WorkflowJob{Labels: make([]string, 101)})
	require.ErrorContains(t, err, "labels")
	j, err := read(github.WorkflowJob{Labels: []string{strings.Repeat("x", 256)}})
	require.NoError(t, err)
	require.Len(t, j.Labels, 1)
}
