package github

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// Job asks after one.
func (c *client) Job(ctx context.Context, repository string, id int64) (forge.Job, error) {
	root, err := rootOf(forge.Repository, repository)
	if err != nil {
		return forge.Job{}, err
	}
	var found github.WorkflowJob
	_, err = c.get(ctx, root+"/actions/jobs/"+strconv.FormatInt(id, 10), nil, &found)
	if errors.Is(err, forge.ErrNotFound) {
		if hidden := c.visible(ctx); hidden != nil {
			err = hidden
		}
	}
	if err != nil {
		return forge.Job{}, xerrors.Errorf("get job %d of %s: %w", id, repository, err)
	}
	return listed(&found, repository)
}

func listed(w *github.WorkflowJob, repository string) (forge.Job, error) {
	at, known := state(w.GetStatus())
	if !known {
		return forge.Job{}, xerrors.Errorf("read job %d of %s: its status %q is not known", w.GetID(), repository, w.GetStatus())
	}
	j, err := job(w, repository, at)
	if err != nil {
		return forge.Job{}, xerrors.Errorf("read job of %s: %w", repository, err)
	}
	return j, nil
}

// OpenJobs lists the jobs of runs that are not over, which is the only listing that GitHub has. Those that wait are among
// them. Of repositories that are gone there are none.
func (c *client) OpenJobs(ctx context.Context, repositories []string) ([]forge.Job, error) {
	if c.scope == forge.Repository {
		repositories = []string{strings.TrimPrefix(c.root, "repos/")}
	}
	var open []forge.Job
	for _, repository := range repositories {
		jobs, err := c.openIn(ctx, repository)
		if errors.Is(err, forge.ErrNotFound) {
			if err = c.visible(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, xerrors.Errorf("list jobs of %s: %w", repository, err)
		}
		open = append(open, jobs...)
	}
	return open, nil
}

func (c *client) openIn(ctx context.Context, repository string) ([]forge.Job, error) {
	root, err := rootOf(forge.Repository, repository)
	if err != nil {
		return nil, err
	}
	var open []forge.Job
	var runs []int64
	for _, status := range []string{"queued", "in_progress", "waiting"} {
		some, err := c.runs(ctx, root, status)
		if err != nil {
			return nil, err
		}
		runs = append(runs, some...)
	}
	slices.Sort(runs)
	for _, run := range slices.Compact(runs) { // one may have moved on between two listings
		jobs, err := c.jobsOf(ctx, root, repository, run)
		if err != nil && !errors.Is(err, forge.ErrNotFound) {
			return nil, err
		}
		open = append(open, jobs...)
	}
	return open, nil
}

func (c *client) runs(ctx context.Context, root, status string) ([]int64, error) {
	var ids []int64
	query := url.Values{"status": {status}}
	err := c.pages(ctx, root+"/actions/runs", query, func(path string, query url.Values) (*github.Response, error) {
		var page github.WorkflowRuns
		if err := c.spare(); err != nil {
			return nil, err
		}
		resp, err := c.get(ctx, path, query, &page)
		for _, r := range page.WorkflowRuns {
			ids = append(ids, r.GetID())
		}
		return resp, err
	})
	return ids, err
}

func (c *client) jobsOf(ctx context.Context, root, repository string, run int64) ([]forge.Job, error) {
	var open []forge.Job
	path := root + "/actions/runs/" + strconv.FormatInt(run, 10) + "/jobs"
	query := url.Values{"filter": {"latest"}}
	err := c.pages(ctx, path, query, func(path string, query url.Values) (*github.Response, error) {
		if err := c.spare(); err != nil {
			return nil, err
		}
		var page github.Jobs
		resp, err := c.get(ctx, path, query, &page)
		if err != nil {
			return nil, err
		}
		for _, w := range page.Jobs {
			if j, err := listed(w, repository); err == nil && j.State != forge.Completed {
				open = append(open, j)
			}
		}
		return resp, nil
	})
	return open, err
}

// spare keeps a fifth of the requests for what can't wait: runners that register and go.
func (c *client) spare() error {
	r := c.Rate()
	if r.Limit > 0 && r.Remaining < r.Limit/5 && r.ResetAt.After(c.now()) {
		return xerrors.Errorf("only %d of %d requests remain until %s, and they are kept for runners", r.Remaining, r.Limit,
			r.ResetAt.Format("15:04:05 MST"))
	}
	return nil
}
