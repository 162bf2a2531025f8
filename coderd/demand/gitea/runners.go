package gitea

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// perPage is as much as Gitea lists at once where nobody has set less. A short page is not the last: the count says so.
const perPage = 50

// Register gets the entity's registration token, which does not expire. That a name is taken shows to nobody: Gitea's runners
// have their ids, and may be named alike.
func (c *client) Register(ctx context.Context, r forge.NewRunner) (forge.Registration, error) {
	if r.Group != "" {
		return forge.Registration{}, xerrors.Errorf("register runner %s: Gitea has no runner groups: %w", r.Name, forge.ErrUnsupported)
	}
	var made struct {
		Token string `json:"token"`
	}
	path := c.root + "/actions/runners/registration-token"
	err := c.do(ctx, http.MethodPost, path, nil, nil, &made)
	if missing(err) { // before 1.24
		if c.scope == forge.Enterprise {
			path = "/admin/runners/registration-token"
		}
		err = c.do(ctx, http.MethodGet, path, nil, nil, &made)
	}
	if err != nil {
		return forge.Registration{}, xerrors.Errorf("get registration token: %w", c.hidden(err))
	}
	if made.Token == "" {
		return forge.Registration{}, xerrors.New("get registration token: the forge's answer has none")
	}
	return forge.Registration{Token: made.Token, URL: c.page}, nil
}

// Runners lists those that are the entity's own, of an instance all. While one is read page by page, runners go, and one that
// stands first on a page moves to the page that was read before: so what does not add up is read again, and what was seen once
// was there.
func (c *client) Runners(ctx context.Context) ([]forge.Runner, error) {
	seen := map[int64]forge.Runner{}
	for range 3 {
		found, whole, err := c.listing(ctx)
		if err != nil {
			return nil, xerrors.Errorf("list runners: %w", err)
		}
		for _, r := range found {
			seen[r.ID] = r
		}
		if whole {
			return found, nil
		}
	}
	all := make([]forge.Runner, 0, len(seen))
	for _, r := range seen {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b forge.Runner) int { return int(a.ID - b.ID) })
	return all, nil
}

// listing reads all pages. Whole: as many as each of them counted, each once.
func (c *client) listing(ctx context.Context) (found []forge.Runner, whole bool, err error) {
	ids, total, read := map[int64]bool{}, -1, 0
	whole = true
	for number := 1; ; number++ {
		var page wireRunners
		if err := c.do(ctx, http.MethodGet, c.root+"/actions/runners", pageQuery(number), nil, &page); err != nil {
			if errors.Is(err, forge.ErrUnsupported) {
				return nil, false, xerrors.Errorf("Gitea lists runners from 1.24 on: %w", err)
			}
			return nil, false, c.hidden(err)
		}
		whole = whole && (total == -1 || total == page.TotalCount)
		total, read = page.TotalCount, read+len(page.Runners)
		for _, r := range page.Runners {
			found, ids[r.ID] = append(found, runner(r)), true
		}
		if len(page.Runners) == 0 || read >= total {
			return found, whole && len(ids) == total && len(found) == total, nil
		}
	}
}

func pageQuery(number int) url.Values {
	return url.Values{"page": {strconv.Itoa(number)}, "limit": {strconv.Itoa(perPage)}}
}

func runner(r wireRunner) forge.Runner {
	one := forge.Runner{ID: r.ID, Name: r.Name, Status: forge.Idle}
	switch {
	case r.Busy || r.Status == "active":
		one.Status = forge.Active
	case r.Status != "online" && r.Status != "idle":
		one.Status = forge.Offline
	}
	for _, l := range r.Labels {
		one.Labels = append(one.Labels, l.Name)
	}
	return one
}

// RunnerNamed looks through all. Of those named alike, the one that registered last.
func (c *client) RunnerNamed(ctx context.Context, name string) (forge.Runner, error) {
	all, err := c.Runners(ctx)
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

// RemoveRunner unregisters. Gitea would do so to a busy one as well, so it is disabled first, after which it gets no job, then
// looked at, and only then removed. A Gitea that can't disable leaves a moment in which a job is given to it: whoever drains
// has to look at the jobs once more.
func (c *client) RemoveRunner(ctx context.Context, id int64) error {
	path := c.root + "/actions/runners/" + strconv.FormatInt(id, 10)
	if err := c.remove(ctx, path); err != nil {
		if errors.Is(err, forge.ErrNotFound) {
			if hidden := c.visible(ctx); hidden != nil {
				err = hidden
			}
		}
		return xerrors.Errorf("remove runner %d: %w", id, err)
	}
	return nil
}

func (c *client) remove(ctx context.Context, path string) error {
	if busy, err := c.busy(ctx, path); busy || err != nil {
		return busyOr(err)
	}
	err := c.do(ctx, http.MethodPatch, path, nil, map[string]bool{"disabled": true}, nil)
	if err != nil && !missing(err) {
		return err
	}
	if busy, err := c.busy(ctx, path); busy || err != nil {
		return busyOr(err) // it stays disabled: it was to go, and takes no second job
	}
	return c.do(ctx, http.MethodDelete, path, nil, nil, nil)
}

func (c *client) busy(ctx context.Context, path string) (bool, error) {
	var now wireRunner
	err := c.do(ctx, http.MethodGet, path, nil, nil, &now)
	return err == nil && runner(now).Status == forge.Active, err
}

func busyOr(err error) error {
	if err != nil {
		return err
	}
	return forge.ErrBusy
}

// Tools are none: Gitea's runner is not offered by it.
func (c *client) Tools(context.Context) ([]forge.Tool, error) { return nil, nil }
