package rest

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// EventJob is the only event that is of a job.
const EventJob = "workflow_job"

// Event is a delivery of a job.
type Event struct {
	Action     string              `json:"action"`
	Job        *github.WorkflowJob `json:"workflow_job"`
	Repository struct {
		FullName       string          `json:"full_name"`
		MirrorLastSync json.RawMessage `json:"mirror_last_sync_at"` // of Gitea from 1.27 on, of any repository
	} `json:"repository"`
}

// ReadEvent reads a delivery. An event of something else, or an action that is not known (forges add some now and then), is
// none of ours: nil.
func ReadEvent(
	event string, body []byte, read func(e Event, state forge.JobState) (forge.Job, error),
) (*forge.Job, error) {
	if event != EventJob {
		return nil, nil
	}
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, xerrors.Errorf("parse job event: %w", err)
	}
	state, known := state(e.Action)
	if !known {
		return nil, nil
	}
	j, err := read(e, state)
	if err != nil {
		return nil, xerrors.Errorf("read job event: %w", err)
	}
	return &j, nil
}

// FindJob asks after one.
func (c *Client) FindJob(ctx context.Context, repository string, id int64) (*github.WorkflowJob, error) {
	root, err := c.RootOf(forge.Repository, repository)
	if err != nil {
		return nil, err
	}
	var found github.WorkflowJob
	_, err = c.Get(ctx, root+"/actions/jobs/"+strconv.FormatInt(id, 10), nil, &found)
	if err = c.Gone(ctx, err); err != nil {
		return nil, xerrors.Errorf("get job %d of %s: %w", id, repository, err)
	}
	return &found, nil
}

// Listed is a job as the API has it.
func Listed(
	w *github.WorkflowJob, repository string, read func(*github.WorkflowJob, string, forge.JobState) (forge.Job, error),
) (forge.Job, error) {
	at, known := state(w.GetStatus())
	if !known {
		return forge.Job{}, xerrors.Errorf("read job %d of %s: its status %q is not known", w.GetID(), repository, w.GetStatus())
	}
	j, err := read(w, repository, at)
	if err != nil {
		return forge.Job{}, xerrors.Errorf("read job of %s: %w", repository, err)
	}
	return j, nil
}

// state is what a webhook's action or a listing's status says. Pending and requested wait for a concurrency group or for
// their run to begin: no demand yet.
func state(s string) (forge.JobState, bool) {
	switch s {
	case "waiting", "pending", "requested":
		return forge.Waiting, true
	case "queued":
		return forge.Queued, true
	case "in_progress":
		return forge.InProgress, true
	case "completed":
		return forge.Completed, true
	}
	return "", false
}

// Job translates, with what is not true left out. A time of start is believed where a runner is named.
func Job(w *github.WorkflowJob, repository string, state forge.JobState) (forge.Job, error) {
	if w.GetID() <= 0 {
		return forge.Job{}, xerrors.New("it names no job")
	}
	if repository == "" {
		return forge.Job{}, xerrors.New("it names no repository")
	}
	attempt := w.GetRunAttempt()
	if attempt < 0 || attempt > 1<<30 {
		return forge.Job{}, xerrors.Errorf("its attempt %d is out of range", attempt)
	}
	if len(w.Labels) > maxLabels || slices.ContainsFunc(w.Labels, func(l string) bool { return len(l) > maxLabel }) {
		return forge.Job{}, xerrors.Errorf("it has more than %d labels, or one of more than %d bytes", maxLabels, maxLabel)
	}
	j := forge.Job{
		ID: w.GetID(), RunID: w.GetRunID(), Attempt: max(1, int(attempt)), State: state,
		Repository: text(repository), Workflow: text(w.GetWorkflowName()), Name: text(w.GetName()), URL: page(w.GetHTMLURL()),
		RunnerID: w.GetRunnerID(), RunnerName: text(w.GetRunnerName()), QueuedAt: Told(w.GetCreatedAt()),
	}
	for _, label := range w.Labels {
		j.Labels = append(j.Labels, text(label))
	}
	if state == forge.InProgress || j.RunnerName != "" {
		j.StartedAt = Told(w.GetStartedAt())
	}
	if state == forge.Completed {
		j.Conclusion, j.CompletedAt = text(w.GetConclusion()), Told(w.GetCompletedAt())
	}
	return j, nil
}

// text is without NUL, which JSON can carry and PostgreSQL can't.
func text(s string) string { return strings.ReplaceAll(s, "\x00", "") }

// A job may ask for this many labels, each of this many bytes. Neither forge lets a runner have as many.
const (
	maxLabels = 100
	maxLabel  = 256
)

// page is the address of a job's page, empty where it is none that a browser should be sent to.
func page(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	return text(address)
}

// Told is zero for the years in which there are no such jobs: the forge's way of saying nothing.
func Told(t github.Timestamp) time.Time {
	if t.Year() < 2000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC()
}
