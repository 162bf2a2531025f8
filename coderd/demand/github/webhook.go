package github

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// Kind is GitHub.
var Kind forge.Kind = kind{}

type kind struct{}

// eventJob is the only event that is of a job.
const eventJob = "workflow_job"

// maximumID is how long a delivery's id may be: GitHub's are UUIDs.
const maximumID = 200

// Delivery reads X-GitHub-Delivery, X-GitHub-Event and X-Hub-Signature-256. A signature that is none is as good as missing.
func (kind) Delivery(h http.Header) (forge.Delivery, error) {
	d := forge.Delivery{ID: h.Get("X-GitHub-Delivery"), Event: h.Get("X-GitHub-Event")}
	if d.ID == "" || d.Event == "" {
		return forge.Delivery{}, xerrors.New("the headers X-GitHub-Delivery and X-GitHub-Event are missing: not a delivery of GitHub")
	}
	if len(d.ID) > maximumID || len(d.Event) > maximumID {
		return forge.Delivery{}, xerrors.New("the headers X-GitHub-Delivery and X-GitHub-Event are too long")
	}
	if digits, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256="); ok {
		if sum, err := hex.DecodeString(digits); err == nil {
			d.Signature = sum
		}
	}
	return d, nil
}

// Job reads a delivery of a job. An action that is not known (GitHub adds some now and then) is none of ours: nil.
func (kind) Job(event string, body []byte) (*forge.Job, error) {
	if event != eventJob {
		return nil, nil
	}
	var e struct {
		Action     string              `json:"action"`
		Job        *github.WorkflowJob `json:"workflow_job"`
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, xerrors.Errorf("parse job event: %w", err)
	}
	state, known := state(e.Action)
	if !known {
		return nil, nil
	}
	j, err := job(e.Job, e.Repository.FullName, state)
	if err != nil {
		return nil, xerrors.Errorf("read job event: %w", err)
	}
	return &j, nil
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

// job translates, with what is not true left out.
func job(w *github.WorkflowJob, repository string, state forge.JobState) (forge.Job, error) {
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
	j := forge.Job{
		ID: w.GetID(), RunID: w.GetRunID(), Attempt: max(1, int(attempt)), State: state,
		Repository: text(repository), Workflow: text(w.GetWorkflowName()), Name: text(w.GetName()), URL: text(w.GetHTMLURL()),
		RunnerID: w.GetRunnerID(), RunnerName: text(w.GetRunnerName()), QueuedAt: told(w.GetCreatedAt().Time),
	}
	for _, label := range w.Labels {
		j.Labels = append(j.Labels, text(label))
	}
	if state == forge.InProgress || j.RunnerName != "" {
		j.StartedAt = told(w.GetStartedAt().Time)
	}
	if state == forge.Completed {
		j.Conclusion, j.CompletedAt = text(w.GetConclusion()), told(w.GetCompletedAt().Time)
	}
	return j, nil
}

// text is without NUL, which JSON can carry and PostgreSQL can't.
func text(s string) string { return strings.ReplaceAll(s, "\x00", "") }

// told is zero for the years in which there are no such jobs: the forge's way of saying nothing.
func told(t time.Time) time.Time {
	if t.Year() < 2000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC()
}
