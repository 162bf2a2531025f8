package gitea_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
)

// event is a delivery of a job as Gitea's schema has it, with fields of the job replaced.
func event(t *testing.T, action string, fields map[string]any) []byte {
	t.Helper()
	job := map[string]any{
		"id": 31, "run_id": 7, "run_attempt": 0, "name": "test (linux)", "status": action,
		"html_url": "https://gitea.example/acme/shop/actions/runs/7/jobs/0", "labels": []string{"self-hosted", "Linux"},
		"created_at": "2026-03-01T10:00:00Z", "started_at": "1970-01-01T00:00:00Z", "completed_at": "1970-01-01T00:00:00Z",
		"head_sha": "0123", "url": "https://gitea.example/api/v1/repos/acme/shop/actions/jobs/31", "steps": []any{},
	}
	for k, v := range fields {
		job[k] = v
	}
	body, err := json.Marshal(map[string]any{
		"action": action, "workflow_job": job, "repository": map[string]any{"full_name": "acme/shop", "id": 1},
		"organization": map[string]any{"login": "acme"}, "sender": map[string]any{"login": "ada"},
	})
	require.NoError(t, err)
	return body
}

func TestJob(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 10, minute, 0, 0, time.UTC) }
	queued := forge.Job{
		ID: 31, RunID: 7, Attempt: 1, State: forge.Queued, Repository: "acme/shop", Name: "test (linux)",
		URL: "https://gitea.example/acme/shop/actions/runs/7/jobs/0", Labels: []string{"self-hosted", "Linux"}, QueuedAt: at(0),
	}
	runner := map[string]any{"runner_id": 17, "runner_name": "prebuild-a", "started_at": "2026-03-01T10:02:00Z", "run_attempt": 1}
	for _, c := range []struct {
		name, action string
		fields       map[string]any
		want         func(j *forge.Job)
	}{
		{"queued", "queued", nil, func(*forge.Job) {}},
		{"waiting", "waiting", nil, func(j *forge.Job) { j.State = forge.Waiting }},
		{"pending", "pending", nil, func(j *forge.Job) { j.State = forge.Waiting }},
		{"queued again under the same id", "queued", map[string]any{"run_attempt": 1}, func(j *forge.Job) {
			j.Attempt, j.QueuedAt = 2, time.Time{} // it has the first attempt's time
		}},
		{"under way again under the same id", "in_progress", map[string]any{
			"run_attempt": 2, "runner_id": 18, "runner_name": "prebuild-b", "started_at": "2026-03-01T10:02:00Z",
		}, func(j *forge.Job) {
			*j = forge.Job{
				ID: j.ID, RunID: j.RunID, Attempt: 2, State: forge.InProgress, Repository: j.Repository, Name: j.Name, URL: j.URL,
				Labels: j.Labels, RunnerID: 18, RunnerName: "prebuild-b", StartedAt: at(2),
			}
		}},
		{"in progress", "in_progress", runner, func(j *forge.Job) {
			j.State, j.RunnerID, j.RunnerName, j.StartedAt = forge.InProgress, 17, "prebuild-a", at(2)
		}},
		{
			"cancelled before a runner had it", "completed",
			map[string]any{"conclusion": "cancelled", "completed_at": "2026-03-01T10:09:00Z"},
			func(j *forge.Job) { j.State, j.Conclusion, j.CompletedAt = forge.Completed, "cancelled", at(9) },
		},
		{
			"completed, its runner forgotten", "completed",
			map[string]any{
				"conclusion": "success", "completed_at": "2026-03-01T10:09:00Z", "runner_id": 17, "run_attempt": 1,
				"started_at": "2026-03-01T10:02:00Z",
			},
			func(j *forge.Job) {
				j.State, j.Conclusion, j.CompletedAt, j.StartedAt, j.RunnerID = forge.Completed, "success", at(9), at(2), 17
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := gitea.Kind.Job("workflow_job", event(t, c.action, c.fields))
			require.NoError(t, err)
			want := queued
			c.want(&want)
			assert.Equal(t, &want, got)
		})
	}
}

// From 1.27 on, the number of an attempt is that of its run, and each is a job of its own. Its webhooks are known by what else
// they say of the repository.
func TestJob_numbered(t *testing.T) {
	t.Parallel()
	for run, fields := range map[int]map[string]any{
		1: {"run_attempt": 1},
		2: {"run_attempt": 2},
		3: {"run_attempt": 3, "runner_id": 17, "runner_name": "prebuild-a"},
	} {
		body := bytes.Replace(event(t, "queued", fields), []byte(`"full_name":`),
			[]byte(`"mirror_last_sync_at":"0001-01-01T00:00:00Z","full_name":`), 1)
		got, err := gitea.Kind.Job("workflow_job", body)
		require.NoError(t, err)
		assert.Equal(t, run, got.Attempt)
		assert.False(t, got.QueuedAt.IsZero(), "it was made for this attempt")
	}
}

// What a Gitea 1.26.4 sent of a job, as coderd/e2e/gitea recorded it.
func TestJob_recorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file    string
		attempt int
		state   forge.JobState
		runner  string
	}{
		{"webhook_queued", 1, forge.Queued, ""},
		{"webhook_in_progress", 1, forge.InProgress, "prebuild-by-hand"},
		{"webhook_completed", 1, forge.Completed, "prebuild-by-hand"},
		{"webhook_queued_again", 2, forge.Queued, ""},
	} {
		body, err := os.ReadFile(filepath.Join("../../e2e/gitea/testdata", c.file+".json"))
		require.NoError(t, err)
		got, err := gitea.Kind.Job("workflow_job", body)
		require.NoError(t, err)
		assert.Equal(t, c.attempt, got.Attempt, c.file)
		assert.Equal(t, c.state, got.State, c.file)
		assert.Equal(t, c.runner, got.RunnerName, c.file)
		assert.Equal(t, "acme/shop", got.Repository, c.file)
		assert.Equal(t, []string{"self-hosted", "linux"}, got.Labels, c.file)
	}
}

func TestJob_ofNothing(t *testing.T) {
	t.Parallel()
	for _, e := range []string{"ping", "push", "workflow_run", ""} {
		got, err := gitea.Kind.Job(e, []byte(`{"zen": "Keep it simple."}`))
		require.NoError(t, err)
		assert.Nil(t, got)
	}
	got, err := gitea.Kind.Job("workflow_job", event(t, "sleeping", nil))
	require.NoError(t, err)
	assert.Nil(t, got, "an action that is not known")
}

func TestJob_bad(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `[]`, `{"action": "queued"}`, `{"action": "queued", "workflow_job": null, "repository": null}`,
		`{"action": "queued", "workflow_job": {"id": 0}, "repository": {"full_name": "a/b"}}`,
		`{"action": "queued", "workflow_job": {"id": 5}}`,
		`{"action": "queued", "workflow_job": {"id": 5, "run_attempt": -1}, "repository": {"full_name": "a/b"}}`,
		`{"action": "queued", "workflow_job": {"id": 5, "labels": "linux"}, "repository": {"full_name": "a/b"}}`,
	} {
		_, err := gitea.Kind.Job("workflow_job", []byte(body))
		require.Error(t, err, body)
	}
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	_, err := gitea.Kind.Delivery(h)
	require.ErrorContains(t, err, "X-Gitea-Delivery")
	h.Set("X-Gitea-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	h.Set("X-Gitea-Event", "workflow_job")
	for signature, want := range map[string][]byte{
		"": nil, "zz": nil, "sha256=00ff": nil, "00ff": {0x00, 0xff},
	} {
		h.Set("X-Gitea-Signature", signature)
		got, err := gitea.Kind.Delivery(h)
		require.NoError(t, err)
		assert.Equal(t, forge.Delivery{ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Event: "workflow_job", Signature: want}, got, signature)
	}
	h.Del("X-Gitea-Signature")
	h.Set("X-Hub-Signature-256", "sha256=ff")
	got, err := gitea.Kind.Delivery(h)
	require.NoError(t, err)
	assert.Equal(t, []byte{0xff}, got.Signature, "the other header")
	h.Set("X-Gitea-Delivery", fmt.Sprintf("%0201d", 1))
	_, err = gitea.Kind.Delivery(h)
	require.ErrorContains(t, err, "too long")
}

// FuzzJob: whatever is delivered, there is either an error or a job that can be stored.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"action":"queued","workflow_job":{"id":5,"run_attempt":1,"labels":["a"],"created_at":"2026-03-01T10:00:00Z"},` +
		`"repository":{"full_name":"acme/shop"}}`))
	f.Add([]byte(`{"action":"completed","workflow_job":{"id":5,"created_at":"0001-01-01T00:00:00Z","completed_at":null},"repository":{"full_name":"a/b"}}`))
	f.Add([]byte(`{"action":"in_progress","workflow_job":{"id":5,"labels":[null],"steps":[null]},"repository":{"full_name":"a/b"}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		j, err := gitea.Kind.Job("workflow_job", body)
		if err != nil || j == nil {
			require.Nil(t, j)
			return
		}
		assert.Positive(t, j.ID)
		assert.Positive(t, j.Attempt)
		assert.NotEmpty(t, j.Repository)
		assert.NotContains(t, fmt.Sprint(*j), "\x00")
	})
}
