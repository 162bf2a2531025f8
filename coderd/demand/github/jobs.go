package github

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// Kind is GitHub.
var Kind forge.Kind = kind{}

type kind struct{}

// Delivery reads X-GitHub-Delivery, X-GitHub-Event and X-Hub-Signature-256.
func (kind) Delivery(h http.Header) (forge.Delivery, error) {
	signature, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
	if !ok {
		signature = ""
	}
	return as.Delivery(h, signature)
}

// Job reads a delivery of a job.
func (kind) Job(event string, body []byte) (*forge.Job, error) {
	return rest.ReadEvent(event, body, func(e rest.Event, state forge.JobState) (forge.Job, error) {
		return rest.Job(e.Job, e.Repository.FullName, state)
	})
}

// Job asks after one.
func (c *client) Job(ctx context.Context, repository string, id int64) (forge.Job, error) {
	found, err := c.FindJob(ctx, repository, id)
	if err != nil {
		return forge.Job{}, err
	}
	return rest.Listed(found, repository, rest.Job)
}

// OpenJobs lists the jobs of runs that are not over, which is the only listing that GitHub has. Those that wait are among
// them. Of repositories that are gone there are none.
func (c *client) OpenJobs(ctx context.Context, repositories []string) ([]forge.Job, error) {
	if c.Scope == forge.Repository {
		repositories = []string{strings.TrimPrefix(c.Root, "repos/")}
	}
	var open []forge.Job
	for _, repository := range repositories {
		jobs, err := c.openIn(ctx, repository)
		if err = c.Gone(ctx, err); errors.Is(err, forge.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, xerrors.Errorf("list jobs of %s: %w", repository, err)
		}
		open = append(open, jobs...)
	}
	return open, nil
}

func (c *client) openIn(ctx context.Context, repository string) ([]forge.Job, error) {
	root, err := as.RootOf(forge.Repository, repository)
	if err != nil {
		return nil, err
	}
	var open []forge.Job
	var runs []int64
	for _, status := range []string{"queued", "in_progress", "waiting"} {
		query := url.Values{"status": {status}}
		err := rest.List(ctx, c.Sparing(), root+"/actions/runs", query, func(page github.WorkflowRuns) (int, int) {
			for _, r := range page.WorkflowRuns {
				runs = append(runs, r.GetID())
			}
			return len(page.WorkflowRuns), page.GetTotalCount()
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(runs)
	for _, run := range slices.Compact(runs) { // one may have moved on between two listings
		path, query := root+"/actions/runs/"+strconv.FormatInt(run, 10)+"/jobs", url.Values{"filter": {"latest"}}
		err := rest.List(ctx, c.Sparing(), path, query, func(page github.Jobs) (int, int) {
			for _, w := range page.Jobs {
				if j, err := rest.Listed(w, repository, rest.Job); err == nil && j.State != forge.Completed {
					open = append(open, j)
				}
			}
			return len(page.Jobs), page.GetTotalCount()
		})
		if err != nil && !errors.Is(err, forge.ErrNotFound) {
			return nil, err
		}
	}
	return open, nil
}
