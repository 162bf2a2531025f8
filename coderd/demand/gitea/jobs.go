package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// Job asks after one.
func (c *client) Job(ctx context.Context, repository string, id int64) (forge.Job, error) {
	root, err := rootOf(forge.Repository, repository)
	if err != nil {
		return forge.Job{}, err
	}
	var found wireJob
	err = c.do(ctx, http.MethodGet, root+"/actions/jobs/"+strconv.FormatInt(id, 10), nil, nil, &found)
	if errors.Is(err, forge.ErrNotFound) {
		if hidden := c.visible(ctx); hidden != nil {
			err = hidden
		}
	}
	if err != nil {
		return forge.Job{}, xerrors.Errorf("get job %d of %s: %w", id, repository, err)
	}
	numbered, err := c.numbered(ctx, &found)
	if err != nil {
		return forge.Job{}, err
	}
	return listed(&found, repository, numbered)
}

// numbered says whether this Gitea numbers attempts before a runner takes them, by its version. Where a job's number means the
// same in any version, it is not asked for.
func (c *client) numbered(ctx context.Context, jobs ...*wireJob) (bool, error) {
	if !slices.ContainsFunc(jobs, func(w *wireJob) bool {
		return w != nil && (w.RunAttempt > 1 || w.RunAttempt == 1 && w.RunnerID == 0)
	}) {
		return false, nil
	}
	var is struct {
		Version string `json:"version"`
	}
	if err := c.do(ctx, http.MethodGet, "/version", nil, nil, &is); err != nil {
		return false, xerrors.Errorf("get version of Gitea: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(is.Version, "%d.%d", &major, &minor); err != nil {
		return false, xerrors.Errorf("get version of Gitea: it says %q", is.Version)
	}
	return major > 1 || minor >= 27, nil
}

func listed(w *wireJob, repository string, numbered bool) (forge.Job, error) {
	at, known := state(w.Status)
	if !known {
		return forge.Job{}, xerrors.Errorf("read job %d of %s: its status %q is not known", w.ID, repository, w.Status)
	}
	j, err := job(w, repository, at, numbered)
	if err != nil {
		return forge.Job{}, xerrors.Errorf("read job of %s: %w", repository, err)
	}
	return j, nil
}

// OpenJobs lists the entity's at once. Where Gitea has that for repositories only, it looks in those.
func (c *client) OpenJobs(ctx context.Context, repositories []string) ([]forge.Job, error) {
	open, err := c.openIn(ctx, c.root)
	if !missing(err) {
		return open, err
	}
	if hidden := c.visible(ctx); hidden != nil {
		return nil, xerrors.Errorf("list jobs: %w", hidden)
	}
	if c.scope == forge.Repository {
		return nil, xerrors.Errorf("list jobs: this Gitea is too old for it: %w", forge.ErrUnsupported)
	}
	for _, repository := range repositories {
		root, err := rootOf(forge.Repository, repository)
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
	var all []*wireJob
	for _, status := range []string{"queued", "in_progress"} {
		for number := 1; ; number++ {
			query := pageQuery(number)
			query.Set("status", status)
			var page wireJobs
			if err := c.do(ctx, http.MethodGet, root+"/actions/jobs", query, nil, &page); err != nil {
				return nil, xerrors.Errorf("list jobs: %w", err)
			}
			if len(page.Jobs) == 0 {
				break
			}
			all = append(all, page.Jobs...)
		}
	}
	numbered, err := c.numbered(ctx, all...)
	if err != nil {
		return nil, err
	}
	var open []forge.Job
	for _, w := range all {
		if w == nil {
			continue
		}
		if j, err := listed(w, repositoryOf(w.URL), numbered); err == nil && j.State != forge.Completed {
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

// Deliveries are kept by Gitea for people only.
func (c *client) Deliveries(context.Context, int64, time.Time) ([]forge.Sent, error) {
	return nil, xerrors.Errorf("list deliveries: %w", forge.ErrUnsupported)
}

func (c *client) DeliveryBody(context.Context, int64, int64) ([]byte, error) {
	return nil, xerrors.Errorf("get delivery: %w", forge.ErrUnsupported)
}
