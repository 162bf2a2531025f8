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
)

// perPage is the most that GitHub lists at once.
const perPage = "100"

// defaultGroup is GitHub's id of the group that every entity has.
const defaultGroup = 1

// Register makes a just-in-time configuration, or a registration token on a server from before there were such.
func (c *client) Register(ctx context.Context, r forge.NewRunner) (forge.Registration, error) {
	group, err := c.group(ctx, r.Group)
	if err != nil {
		return forge.Registration{}, err
	}
	work := "_work"
	var made github.JITRunnerConfig
	_, err = c.do(ctx, http.MethodPost, c.root+"/actions/runners/generate-jitconfig", github.CreateJITConfigRequest{
		Name: r.Name, RunnerGroupID: group, WorkFolder: &work, Labels: r.Labels,
	}, &made)
	if errors.Is(err, forge.ErrNotFound) {
		return c.token(ctx)
	}
	if err != nil {
		return forge.Registration{}, xerrors.Errorf("register runner %s: %w", r.Name, err)
	}
	if made.GetEncodedJITConfig() == "" {
		return forge.Registration{}, xerrors.Errorf("register runner %s: the forge's answer has no configuration", r.Name)
	}
	return forge.Registration{RunnerID: made.GetRunner().GetID(), JITConfig: made.GetEncodedJITConfig(), URL: c.page}, nil
}

// token is how runners registered before.
func (c *client) token(ctx context.Context) (forge.Registration, error) {
	var made github.RegistrationToken
	_, err := c.do(ctx, http.MethodPost, c.root+"/actions/runners/registration-token", nil, &made)
	if err != nil {
		return forge.Registration{}, xerrors.Errorf("get registration token: %w", hidden(err, c.root))
	}
	if made.GetToken() == "" {
		return forge.Registration{}, xerrors.New("get registration token: the forge's answer has none")
	}
	return forge.Registration{Token: made.GetToken(), ExpiresAt: told(made.GetExpiresAt().Time), URL: c.page}, nil
}

// group is the id of a runner group. Repositories have but the default one.
func (c *client) group(ctx context.Context, name string) (int64, error) {
	if name == "" || strings.EqualFold(name, "default") {
		return defaultGroup, nil
	}
	if c.scope == forge.Repository {
		return 0, xerrors.Errorf("find runner group %q: a repository has none: %w", name, forge.ErrUnsupported)
	}
	c.mu.Lock()
	id, known := c.groups[strings.ToLower(name)]
	known = known && c.now().Sub(c.groupAt) < fresh
	c.mu.Unlock()
	if known {
		return id, nil
	}
	if err := c.readGroups(ctx); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, known = c.groups[strings.ToLower(name)]; !known {
		return 0, xerrors.Errorf("%s has no runner group %q", c.root, name)
	}
	return id, nil
}

func (c *client) readGroups(ctx context.Context) error {
	found, at := map[string]int64{}, c.now()
	err := c.pages(ctx, c.root+"/actions/runner-groups", nil, func(path string, query url.Values) (*github.Response, error) {
		var page struct {
			Groups []*github.RunnerGroup `json:"runner_groups"`
		}
		resp, err := c.get(ctx, path, query, &page)
		for _, g := range page.Groups {
			found[strings.ToLower(g.GetName())] = g.GetID()
		}
		return resp, err
	})
	if err != nil {
		return xerrors.Errorf("list runner groups: %w", hidden(err, c.root))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups, c.groupAt = found, at
	return nil
}

// pages calls read for each page to the last.
func (c *client) pages(
	ctx context.Context, path string, query url.Values, read func(path string, query url.Values) (*github.Response, error),
) error {
	asked := url.Values{"per_page": {perPage}}
	for k, v := range query {
		asked[k] = v
	}
	for next := 1; next != 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		asked.Set("page", strconv.Itoa(next))
		resp, err := read(path, asked)
		if err != nil {
			return err
		}
		if resp.NextPage != 0 && resp.NextPage <= next {
			return xerrors.Errorf("after page %d the forge names page %d", next, resp.NextPage)
		}
		next = resp.NextPage
	}
	return nil
}

// Runners lists all of them. While one is read page by page, runners go, and one that stands first on a page moves to the
// page that was read before: so what does not add up is read again, and what was seen once was there.
func (c *client) Runners(ctx context.Context) ([]forge.Runner, error) {
	seen := map[int64]forge.Runner{}
	for range 3 {
		found, whole, err := c.listing(ctx, nil)
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
func (c *client) listing(ctx context.Context, query url.Values) (found []forge.Runner, whole bool, err error) {
	whole, total, ids := true, -1, map[int64]bool{}
	err = c.pages(ctx, c.root+"/actions/runners", query, func(path string, query url.Values) (*github.Response, error) {
		var page github.Runners
		resp, err := c.get(ctx, path, query, &page)
		if err != nil {
			return nil, err
		}
		whole = whole && (total == -1 || total == page.TotalCount)
		total = page.TotalCount
		for _, r := range page.Runners {
			found, ids[r.GetID()] = append(found, runner(r)), true
		}
		return resp, nil
	})
	return found, whole && len(ids) == total && len(found) == total, hidden(err, c.root)
}

func runner(r *github.Runner) forge.Runner {
	one := forge.Runner{ID: r.GetID(), Name: r.GetName(), Status: forge.Offline}
	switch {
	case r.GetBusy(): // also of one that is cut off: it may still be at it
		one.Status = forge.Active
	case r.GetStatus() == "online":
		one.Status = forge.Idle
	}
	for _, l := range r.Labels {
		one.Labels = append(one.Labels, l.GetName())
	}
	return one
}

// RunnerNamed asks by name; servers that do not know that list all.
func (c *client) RunnerNamed(ctx context.Context, name string) (forge.Runner, error) {
	found, _, err := c.listing(ctx, url.Values{"name": {name}})
	if err != nil {
		return forge.Runner{}, xerrors.Errorf("find runner %s: %w", name, err)
	}
	for _, r := range found {
		if r.Name == name {
			return r, nil
		}
	}
	return forge.Runner{}, xerrors.Errorf("find runner %s: %w", name, forge.ErrNotFound)
}

// RemoveRunner unregisters. The forge refuses with 422 while the runner has a job.
func (c *client) RemoveRunner(ctx context.Context, id int64) error {
	_, err := c.do(ctx, http.MethodDelete, c.root+"/actions/runners/"+strconv.FormatInt(id, 10), nil, nil)
	switch {
	case unprocessable(err):
		return xerrors.Errorf("remove runner %d: %s: %w", id, err.Error(), forge.ErrBusy)
	case errors.Is(err, forge.ErrNotFound):
		if hidden := c.visible(ctx); hidden != nil {
			return xerrors.Errorf("remove runner %d: %w", id, hidden)
		}
	}
	if err != nil {
		return xerrors.Errorf("remove runner %d: %w", id, err)
	}
	return nil
}

// Tools are asked for once a minute (P5).
func (c *client) Tools(ctx context.Context) ([]forge.Tool, error) {
	c.mu.Lock()
	tools, known := c.tools, !c.toolsAt.IsZero() && c.now().Sub(c.toolsAt) < fresh
	c.mu.Unlock()
	if known {
		return slices.Clone(tools), nil
	}
	at := c.now()
	var found []*github.RunnerApplicationDownload
	if _, err := c.get(ctx, c.root+"/actions/runners/downloads", nil, &found); err != nil {
		return nil, xerrors.Errorf("list runner downloads: %w", hidden(err, c.root))
	}
	tools = make([]forge.Tool, 0, len(found))
	for _, d := range found {
		tools = append(tools, forge.Tool{
			OS: d.GetOS(), Arch: d.GetArchitecture(), URL: d.GetDownloadURL(), Filename: d.GetFilename(),
			SHA256: d.GetSHA256Checksum(), Token: d.GetTempDownloadToken(),
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tools, c.toolsAt = tools, at
	return slices.Clone(tools), nil
}
