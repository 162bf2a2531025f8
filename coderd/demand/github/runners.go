package github

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
	"github.com/prewarm-dev/prewarm/coderd/lists"
)

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
	_, err = c.Do(ctx, http.MethodPost, c.Root+"/actions/runners/generate-jitconfig", github.CreateJITConfigRequest{
		Name: r.Name, RunnerGroupID: group, WorkFolder: &work, Labels: r.Labels,
	}, &made)
	if errors.Is(err, forge.ErrNotFound) {
		return c.RegistrationToken(ctx)
	}
	if err != nil {
		return forge.Registration{}, xerrors.Errorf("register runner %s: %w", r.Name, err)
	}
	if made.GetEncodedJITConfig() == "" {
		return forge.Registration{}, xerrors.Errorf("register runner %s: the forge's answer has no configuration", r.Name)
	}
	return forge.Registration{RunnerID: made.GetRunner().GetID(), JITConfig: made.GetEncodedJITConfig(), URL: c.page}, nil
}

// JIT asks for a configuration of nothing, which GitHub refuses, and a server from before there were such does not know. A
// server that has them keeps them; one that has not is asked again after a minute: it may have been upgraded.
func (c *client) JIT(ctx context.Context) (bool, error) {
	c.mu.Lock()
	jit, known := c.jit, c.jit || !c.jitAt.IsZero() && c.Now().Sub(c.jitAt) < fresh
	c.mu.Unlock()
	if known {
		return jit, nil
	}
	at := c.Now()
	_, err := c.Do(ctx, http.MethodPost, c.Root+"/actions/runners/generate-jitconfig", struct{}{}, nil)
	switch {
	case err == nil, rest.Rejected(err):
		jit = true
	case !errors.Is(err, forge.ErrNotFound):
		return false, xerrors.Errorf("ask for just-in-time configurations: %w", err)
	default:
		if err := c.Visible(ctx); err != nil {
			return false, xerrors.Errorf("ask for just-in-time configurations: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jit, c.jitAt = jit, at
	return jit, nil
}

// RegistrationToken is how runners registered before there were configurations, and may still.
func (c *client) RegistrationToken(ctx context.Context) (forge.Registration, error) {
	var made github.RegistrationToken
	_, err := c.Do(ctx, http.MethodPost, c.Root+"/actions/runners/registration-token", nil, &made)
	if err != nil {
		return forge.Registration{}, xerrors.Errorf("get registration token: %w", c.Hidden(err))
	}
	if made.GetToken() == "" {
		return forge.Registration{}, xerrors.New("get registration token: the forge's answer has none")
	}
	return forge.Registration{Token: made.GetToken(), ExpiresAt: rest.Told(made.GetExpiresAt()), URL: c.page}, nil
}

// group is the id of a runner group. Repositories have but the default one.
func (c *client) group(ctx context.Context, name string) (int64, error) {
	if name == "" || strings.EqualFold(name, "default") {
		return defaultGroup, nil
	}
	if c.Scope == forge.Repository {
		return 0, xerrors.Errorf("find runner group %q: a repository has none: %w", name, forge.ErrUnsupported)
	}
	c.mu.Lock()
	id, known := c.groups[strings.ToLower(name)]
	known = known && c.Now().Sub(c.groupAt) < fresh
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
		return 0, xerrors.Errorf("%s has no runner group %q", c.Root, name)
	}
	return id, nil
}

func (c *client) readGroups(ctx context.Context) error {
	found, at := map[string]int64{}, c.Now()
	type groups struct {
		Groups []*github.RunnerGroup `json:"runner_groups"`
	}
	err := rest.List(ctx, c.Client, c.Root+"/actions/runner-groups", nil, func(page groups) (int, int) {
		for _, g := range page.Groups {
			found[strings.ToLower(g.GetName())] = g.GetID()
		}
		return len(page.Groups), -1
	})
	if err != nil {
		return xerrors.Errorf("list runner groups: %w", c.Hidden(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups, c.groupAt = found, at
	return nil
}

// RemoveRunner unregisters. The forge refuses with 422 while the runner has a job.
func (c *client) RemoveRunner(ctx context.Context, id int64) error {
	_, err := c.Do(ctx, http.MethodDelete, c.RunnerPath(id), nil, nil)
	if rest.Unprocessable(err) {
		return xerrors.Errorf("remove runner %d: %s: %w", id, err.Error(), forge.ErrBusy)
	}
	if err = c.Gone(ctx, err); err != nil {
		return xerrors.Errorf("remove runner %d: %w", id, err)
	}
	return nil
}

// Tools are asked for once a minute (P5).
func (c *client) Tools(ctx context.Context) ([]forge.Tool, error) {
	c.mu.Lock()
	tools, known := c.tools, !c.toolsAt.IsZero() && c.Now().Sub(c.toolsAt) < fresh
	c.mu.Unlock()
	if known {
		return slices.Clone(tools), nil
	}
	at := c.Now()
	var found []*github.RunnerApplicationDownload
	if _, err := c.Get(ctx, c.Root+"/actions/runners/downloads", nil, &found); err != nil {
		return nil, xerrors.Errorf("list runner downloads: %w", c.Hidden(err))
	}
	tools = lists.Of(found, func(d *github.RunnerApplicationDownload) forge.Tool {
		return forge.Tool{
			OS: d.GetOS(), Arch: d.GetArchitecture(), URL: d.GetDownloadURL(), Filename: d.GetFilename(),
			SHA256: d.GetSHA256Checksum(), Token: d.GetTempDownloadToken(),
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tools, c.toolsAt = tools, at
	return slices.Clone(tools), nil
}
