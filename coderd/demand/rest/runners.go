package rest

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// Runners lists all of them.
func (c *Client) Runners(ctx context.Context) ([]forge.Runner, error) {
	all, err := c.runners(ctx, nil)
	if err != nil {
		return nil, xerrors.Errorf("list runners: %w", err)
	}
	return all, nil
}

// RunnerNamed asks by name; servers that do not know that list all. Of those named alike, the one that registered last.
func (c *Client) RunnerNamed(ctx context.Context, name string) (forge.Runner, error) {
	all, err := c.runners(ctx, url.Values{"name": {name}})
	if err != nil {
		return forge.Runner{}, xerrors.Errorf("find runner %s: %w", name, err)
	}
	last := forge.Runner{}
	for _, r := range all {
		if r.Name == name && r.ID > last.ID {
			last = r
		}
	}
	if last.ID == 0 {
		return last, xerrors.Errorf("find runner %s: %w", name, forge.ErrNotFound)
	}
	return last, nil
}

// runners reads a whole listing. While one is read page by page, runners go, and one that stands first on a page moves to the
// page that was read before: so what does not add up is read again, and what was seen once was there.
func (c *Client) runners(ctx context.Context, query url.Values) ([]forge.Runner, error) {
	seen := map[int64]forge.Runner{}
	for range 3 {
		found, whole, err := c.listing(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			seen[r.ID] = r
		}
		if whole {
			return found, nil
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b forge.Runner) int { return int(a.ID - b.ID) }), nil
}

// listing reads all pages. Whole: as many as each of them counted, each once.
func (c *Client) listing(ctx context.Context, query url.Values) (found []forge.Runner, whole bool, err error) {
	whole, total, ids := true, -1, map[int64]bool{}
	err = List(ctx, c, c.Root+"/actions/runners", query, func(page github.Runners) (int, int) {
		whole = whole && (total == -1 || total == page.TotalCount)
		total = page.TotalCount
		for _, r := range page.Runners {
			found, ids[r.GetID()] = append(found, Runner(r)), true
		}
		return len(page.Runners), total
	})
	if errors.Is(err, forge.ErrUnsupported) && c.NotListed != "" {
		err = xerrors.Errorf("%s: %w", c.NotListed, err)
	}
	return found, whole && len(ids) == total && len(found) == total, c.Hidden(err)
}

// Runner translates. GitHub says online, Gitea also idle and active.
func Runner(r *github.Runner) forge.Runner {
	one := forge.Runner{ID: r.GetID(), Name: r.GetName(), Status: forge.Offline}
	switch {
	case r.GetBusy() || r.GetStatus() == "active": // also of one that is cut off: it may still be at it
		one.Status = forge.Active
	case r.GetStatus() == "online" || r.GetStatus() == "idle":
		one.Status = forge.Idle
	}
	for _, l := range r.Labels {
		one.Labels = append(one.Labels, l.GetName())
	}
	return one
}

// RunnerPath is where the API has a runner.
func (c *Client) RunnerPath(id int64) string {
	return c.Root + "/actions/runners/" + strconv.FormatInt(id, 10)
}
