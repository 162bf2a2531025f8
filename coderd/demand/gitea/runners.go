package gitea

import (
	"context"
	"net/http"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// Register gets the entity's registration token, which does not expire. That a name is taken shows to nobody: Gitea's runners
// have their ids, and may be named alike.
func (c *client) Register(ctx context.Context, r forge.NewRunner) (forge.Registration, error) {
	if r.Group != "" {
		return forge.Registration{}, xerrors.Errorf("register runner %s: Gitea has no runner groups: %w", r.Name, forge.ErrUnsupported)
	}
	return c.RegistrationToken(ctx)
}

// RegistrationToken is the entity's.
func (c *client) RegistrationToken(ctx context.Context) (forge.Registration, error) {
	var made struct {
		Token string `json:"token"`
	}
	path := c.Root + "/actions/runners/registration-token"
	_, err := c.Do(ctx, http.MethodPost, path, nil, &made)
	if missing(err) { // before 1.24
		if c.Scope == forge.Enterprise {
			path = "admin/runners/registration-token"
		}
		_, err = c.Get(ctx, path, nil, &made)
	}
	if err != nil {
		return forge.Registration{}, xerrors.Errorf("get registration token: %w", c.Hidden(err))
	}
	if made.Token == "" {
		return forge.Registration{}, xerrors.New("get registration token: the forge's answer has none")
	}
	return forge.Registration{Token: made.Token, URL: c.page}, nil
}

// RemoveRunner unregisters. Gitea would do so to a busy one as well, so it is disabled first, after which it gets no job, then
// looked at, and only then removed. A Gitea that can't disable leaves a moment in which a job is given to it: whoever drains
// has to look at the jobs once more.
func (c *client) RemoveRunner(ctx context.Context, id int64) error {
	if err := c.Gone(ctx, c.remove(ctx, c.RunnerPath(id))); err != nil {
		return xerrors.Errorf("remove runner %d: %w", id, err)
	}
	return nil
}

func (c *client) remove(ctx context.Context, path string) error {
	if err := c.idle(ctx, path); err != nil {
		return err
	}
	_, err := c.Do(ctx, http.MethodPatch, path, map[string]bool{"disabled": true}, nil)
	if err != nil && !missing(err) {
		return err
	}
	if err := c.idle(ctx, path); err != nil {
		return err // it stays disabled: it was to go, and takes no second job
	}
	_, err = c.Do(ctx, http.MethodDelete, path, nil, nil)
	return err
}

// idle is forge.ErrBusy of a runner that has a job.
func (c *client) idle(ctx context.Context, path string) error {
	var now github.Runner
	_, err := c.Get(ctx, path, nil, &now)
	if err == nil && rest.Runner(&now).Status == forge.Active {
		return forge.ErrBusy
	}
	return err
}

// JIT is what Gitea has not.
func (*client) JIT(context.Context) (bool, error) { return false, nil }

// Tools are none: Gitea's runner is not offered by it.
func (c *client) Tools(context.Context) ([]forge.Tool, error) { return nil, nil }
