package gitea

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// Kind is Gitea.
var Kind forge.Kind = kind{}

type kind struct{}

// Delivery reads X-Gitea-Delivery, X-Gitea-Event and X-Gitea-Signature, or X-Hub-Signature-256 where that is missing.
func (kind) Delivery(h http.Header) (forge.Delivery, error) {
	return as.Delivery(h, cmp.Or(h.Get("X-Gitea-Signature"), strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256=")))
}

// Job reads a delivery of a job.
func (kind) Job(event string, body []byte) (*forge.Job, error) {
	return rest.ReadEvent(event, body, func(e rest.Event, state forge.JobState) (forge.Job, error) {
		return reader(e.Repository.MirrorLastSync != nil)(e.Job, e.Repository.FullName, state)
	})
}

// reader translates jobs of a Gitea that numbers the attempts before a runner takes them, or as one does. The latter says the
// last one's number until a runner takes the next: by it, what is run again would be what is over.
func reader(numbered bool) func(*github.WorkflowJob, string, forge.JobState) (forge.Job, error) {
	return func(w *github.WorkflowJob, repository string, state forge.JobState) (forge.Job, error) {
		j, err := rest.Job(w, repository, state)
		if err != nil {
			return j, err
		}
		if j.RunnerID == 0 && !numbered {
			j.Attempt = int(w.GetRunAttempt()) + 1
		}
		if j.Attempt > 1 && !numbered {
			j.QueuedAt = time.Time{} // that was the first attempt
		}
		j.StartedAt = time.Time{}
		if state == forge.InProgress || state == forge.Completed {
			j.StartedAt = rest.Told(w.GetStartedAt())
		}
		return j, nil
	}
}

// Job asks after one.
func (c *client) Job(ctx context.Context, repository string, id int64) (forge.Job, error) {
	found, err := c.FindJob(ctx, repository, id)
	if err != nil {
		return forge.Job{}, err
	}
	numbered, err := c.numbered(ctx, found)
	if err != nil {
		return forge.Job{}, err
	}
	return rest.Listed(found, repository, reader(numbered))
}

// numbered says whether this Gitea numbers attempts before a runner takes them, by its version. Where a job's number means the
// same in any version, it is not asked for.
func (c *client) numbered(ctx context.Context, jobs ...*github.WorkflowJob) (bool, error) {
	if !slices.ContainsFunc(jobs, func(w *github.WorkflowJob) bool {
		return w.GetRunAttempt() > 1 || w.GetRunAttempt() == 1 && w.GetRunnerID() == 0
	}) {
		return false, nil
	}
	var is struct {
		Version string `json:"version"`
	}
	if _, err := c.Get(ctx, "version", nil, &is); err != nil {
		return false, xerrors.Errorf("get version of Gitea: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(is.Version, "%d.%d", &major, &minor); err != nil {
		return false, xerrors.Errorf("get version of Gitea: it says %q", is.Version)
	}
	return major > 1 || minor >= 27, nil
}

// OpenJobs lists the entity's at once. Where Gitea has that for repositories only, it looks in those.
func (c *client) OpenJobs(ctx context.Context, repositories []string) ([]forge.Job, error) {
	open, err := c.openIn(ctx, c.Root)
	if !missing(err) {
		return open, err
	}
	if hidden := c.Visible(ctx); hidden != nil {
		return nil, xerrors.Errorf("list jobs: %w", hidden)
	}
	if c.Scope == forge.Repository {
		return nil, xerrors.Errorf("list jobs: this Gitea is too old for it: %w", forge.ErrUnsupported)
	}
	for _, repository := range repositories {
		root, err := as.RootOf(forge.Repository, repository)
		if err != nil {
			return nil, err
		}
		some, err := c.openIn(ctx, root)
		if err != nil && !missing(err) { // the repository may be gone
			return nil, err
		}
		open = append(open, some...)
	}
	return open, nil
}

// openIn lists by status, each to the last page. A job that moves on meanwhile may be told twice.
func (c *client) openIn(ctx context.Context, root string) ([]forge.Job, error) {
	var all []*github.WorkflowJob
	for _, status := range []string{"queued", "in_progress"} {
		query := url.Values{"status": {status}}
		err := rest.List(ctx, c.Client, root+"/actions/jobs", query, func(page github.Jobs) (int, int) {
			all = append(all, page.Jobs...)
			return len(page.Jobs), -1
		})
		if err != nil {
			return nil, xerrors.Errorf("list jobs: %w", err)
		}
	}
	numbered, err := c.numbered(ctx, all...)
	if err != nil {
		return nil, err
	}
	var open []forge.Job
	for _, w := range all {
		if j, err := rest.Listed(w, repositoryOf(w.GetURL()), reader(numbered)); err == nil && j.State != forge.Completed {
			open = append(open, j)
		}
	}
	return open, nil
}

// repositoryOf reads it off a job's address in the API, which is the only place that has it.
func repositoryOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(u.Path, "/api/v1/repos/")
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[0] + "/" + parts[1]
}
