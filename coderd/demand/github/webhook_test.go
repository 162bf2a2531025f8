package github_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
)

// event is a delivery of a job as GitHub's schema has it, with fields of the job replaced.
func event(t *testing.T, action string, fields map[string]any) []byte {
	t.Helper()
	job := map[string]any{
		"id": 29679449, "run_id": 4711, "run_attempt": 1, "workflow_name": "CI", "name": "test (linux)", "status": action,
		"html_url": "https://github.com/acme/shop/runs/29679449", "labels": []string{"self-hosted", "Linux"},
		"created_at": "2026-03-01T10:00:00Z", "started_at": "2026-03-01T10:00:00Z", "completed_at": nil, "conclusion": nil,
		"runner_id": nil, "runner_name": nil, "runner_group_id": nil, "steps": []any{},
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
		ID: 29679449, RunID: 4711, Attempt: 1, State: forge.Queued, Repository: "acme/shop", Workflow: "CI", Name: "test (linux)",
		URL: "https://github.com/acme/shop/runs/29679449", Labels: []string{"self-hosted", "Linux"}, QueuedAt: at(0),
	}
	runner := map[string]any{"runner_id": 17, "runner_name": "prebuild-a", "started_at": "2026-03-01T10:02:00Z", "run_attempt": 2}
	for _, c := range []struct {
		name, action string
		fields       map[string]any
		want         func(j *forge.Job)
	}{
		{"queued", "queued", nil, func(*forge.Job) {}},
		{"waiting", "waiting", nil, func(j *forge.Job) { j.State = forge.Waiting }},
		{"no attempt", "queued", map[string]any{"run_attempt": 0}, func(*forge.Job) {}},
		{"nulls", "queued", map[string]any{"run_attempt": nil, "labels": nil, "name": nil, "created_at": nil}, func(j *forge.Job) {
			j.Labels, j.Name, j.QueuedAt = nil, "", time.Time{}
		}},
		{"the year 1970", "queued", map[string]any{"created_at": "1970-01-01T00:00:00Z"}, func(j *forge.Job) { j.QueuedAt = time.Time{} }},
		{"NUL", "queued", map[string]any{"name": "a\x00b", "labels": []string{"x\x00"}}, func(j *forge.Job) {
			j.Name, j.Labels = "ab", []string{"x"}
		}},
		{"in progress", "in_progress", runner, func(j *forge.Job) {
			j.State, j.RunnerID, j.RunnerName, j.StartedAt, j.Attempt = forge.InProgress, 17, "prebuild-a", at(2), 2
		}},
		{
			"cancelled before a runner had it", "completed",
			map[string]any{"conclusion": "cancelled", "completed_at": "2026-03-01T10:09:00Z"},
			func(j *forge.Job) { j.State, j.Conclusion, j.CompletedAt = forge.Completed, "cancelled", at(9) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := github.Kind.Job("workflow_job", event(t, c.action, c.fields))
			require.NoError(t, err)
			want := queued
			c.want(&want)
			assert.Equal(t, &want, got)
		})
	}
}

func TestJob_ofNothing(t *testing.T) {
	t.Parallel()
	for _, e := range []string{"ping", "push", "workflow_run", ""} {
		got, err := github.Kind.Job(e, []byte(`{"zen": "Keep it simple."}`))
		require.NoError(t, err)
		assert.Nil(t, got)
	}
	got, err := github.Kind.Job("workflow_job", event(t, "sleeping", nil))
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
		_, err := github.Kind.Job("workflow_job", []byte(body))
		require.Error(t, err, body)
	}
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	_, err := github.Kind.Delivery(h)
	require.ErrorContains(t, err, "X-GitHub-Delivery")
	h.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	h.Set("X-GitHub-Event", "workflow_job")
	for signature, want := range map[string][]byte{
		"": nil, "sha1=00": nil, "sha256=zz": nil, "00ff": nil, "sha256=00ff": {0x00, 0xff},
	} {
		h.Set("X-Hub-Signature-256", signature)
		got, err := github.Kind.Delivery(h)
		require.NoError(t, err)
		assert.Equal(t, forge.Delivery{ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Event: "workflow_job", Signature: want}, got, signature)
	}
	h.Set("X-GitHub-Delivery", fmt.Sprintf("%0201d", 1))
	_, err = github.Kind.Delivery(h)
	require.ErrorContains(t, err, "too long")
}

// FuzzJob: whatever is delivered, there is either an error or a job that can be stored.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"action":"queued","workflow_job":{"id":5,"run_attempt":1,"labels":["a"],"created_at":"2026-03-01T10:00:00Z"},` +
		`"repository":{"full_name":"acme/shop"}}`))
	f.Add([]byte(`{"action":"completed","workflow_job":{"id":5,"created_at":1e9,"completed_at":null},"repository":{"full_name":"a/b"}}`))
	f.Add([]byte(`{"action":"in_progress","workflow_job":{"id":5,"labels":[null],"steps":[null]},"repository":{"full_name":"a/b"}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		j, err := github.Kind.Job("workflow_job", body)
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
