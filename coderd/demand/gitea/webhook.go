package gitea

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// Kind is Gitea.
var Kind forge.Kind = kind{}

type kind struct{}

// eventJob is the only event that is of a job.
const eventJob = "workflow_job"

// maximumID is how long a delivery's id may be: Gitea's are UUIDs.
const maximumID = 200

// Delivery reads X-Gitea-Delivery, X-Gitea-Event and X-Gitea-Signature, or X-Hub-Signature-256 where that is missing. A
// signature that is none is as good as missing.
func (kind) Delivery(h http.Header) (forge.Delivery, error) {
	d := forge.Delivery{ID: h.Get("X-Gitea-Delivery"), Event: h.Get("X-Gitea-Event")}
	if d.ID == "" || d.Event == "" {
		return forge.Delivery{}, xerrors.New("the headers X-Gitea-Delivery and X-Gitea-Event are missing: not a delivery of Gitea")
	}
	if len(d.ID) > maximumID || len(d.Event) > maximumID {
		return forge.Delivery{}, xerrors.New("the headers X-Gitea-Delivery and X-Gitea-Event are too long")
	}
	digits := cmp.Or(h.Get("X-Gitea-Signature"), strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256="))
	if sum, err := hex.DecodeString(digits); err == nil && len(sum) > 0 {
		d.Signature = sum
	}
	return d, nil
}

// Job reads a delivery of a job. An action that is not known is none of ours: nil.
func (kind) Job(event string, body []byte) (*forge.Job, error) {
	if event != eventJob {
		return nil, nil
	}
	var e struct {
		Action     string   `json:"action"`
		Job        *wireJob `json:"workflow_job"`
		Repository struct {
			FullName       string          `json:"full_name"`
			MirrorLastSync json.RawMessage `json:"mirror_last_sync_at"` // from 1.27 on, of any repository
		} `json:"repository"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, xerrors.Errorf("parse job event: %w", err)
	}
	state, known := state(e.Action)
	if !known {
		return nil, nil
	}
	j, err := job(e.Job, e.Repository.FullName, state, e.Repository.MirrorLastSync != nil)
	if err != nil {
		return nil, xerrors.Errorf("read job event: %w", err)
	}
	return &j, nil
}

// state is what a webhook's action or a listing's status says.
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

// job translates, with what is not true left out. Numbered: Gitea numbers the attempts before a runner takes them.
func job(w *wireJob, repository string, state forge.JobState, numbered bool) (forge.Job, error) {
	if w == nil || w.ID <= 0 {
		return forge.Job{}, xerrors.New("it names no job")
	}
	if repository == "" {
		return forge.Job{}, xerrors.New("it names no repository")
	}
	attempt, err := attempt(w, numbered)
	if err != nil {
		return forge.Job{}, err
	}
	j := forge.Job{
		ID: w.ID, RunID: w.RunID, Attempt: attempt, State: state,
		Repository: text(repository), Name: text(w.Name), URL: text(w.HTMLURL),
		RunnerID: w.RunnerID, RunnerName: text(w.RunnerName), QueuedAt: told(w.CreatedAt),
	}
	if attempt > 1 && !numbered {
		j.QueuedAt = time.Time{} // that was the first attempt
	}
	for _, label := range w.Labels {
		j.Labels = append(j.Labels, text(label))
	}
	if state == forge.InProgress || state == forge.Completed {
		j.StartedAt = told(w.StartedAt)
	}
	if state == forge.Completed {
		j.Conclusion, j.CompletedAt = text(w.Conclusion), told(w.CompletedAt)
	}
	return j, nil
}

// attempt is from 1. A Gitea that counts attempts as runners take them says the last one's number until one takes the next:
// by it, what is run again would be what is over.
func attempt(w *wireJob, numbered bool) (int, error) {
	if w.RunAttempt < 0 || w.RunAttempt > 1<<30 {
		return 0, xerrors.Errorf("its attempt %d is out of range", w.RunAttempt)
	}
	if w.RunnerID == 0 && !numbered {
		return int(w.RunAttempt) + 1, nil
	}
	return max(1, int(w.RunAttempt)), nil
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
