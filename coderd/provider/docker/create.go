package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Create makes the container and starts it, or goes on with the one that was made before.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	s, err := p.specOf(req)
	if err != nil {
		return provider.Instance{}, err
	}
	f, err := p.find(ctx, provider.Ref{Name: req.Name})
	switch {
	case err == nil && f.tags != req.Tags:
		return provider.Instance{}, provider.ErrConflict
	case err == nil && f.State != container.StateRemoving:
		return p.finish(ctx, req, s, f)
	case err != nil && !errors.Is(err, provider.ErrNotFound):
		return provider.Instance{}, err
	}
	image, err := p.image(ctx, s)
	if err != nil {
		return provider.Instance{}, err
	}
	return p.make(ctx, req, s, image, "")
}

// make makes a container, or finds that another did, and starts it.
func (p *Provider) make(
	ctx context.Context, req provider.CreateRequest, s spec, image image.InspectResponse, replaces string,
) (provider.Instance, error) {
	options, err := p.options(req, s, image, replaces)
	if err != nil {
		return provider.Instance{}, err
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := provider.Lasting(ctx, p.clock, func(ctx context.Context) error {
			_, err := p.client.ContainerCreate(ctx, options)
			return err
		})
		if err != nil && !cerrdefs.IsConflict(err) {
			return provider.Instance{}, p.refused(ctx, s, err)
		}
		f, lookErr := p.named(ctx, req)
		switch {
		case lookErr == nil:
			return p.finish(ctx, req, s, f)
		case !errors.Is(lookErr, provider.ErrNotFound):
			return provider.Instance{}, lookErr
		case err == nil:
			return provider.Instance{}, xerrors.New("the container was removed while it was made")
		}
		// Who had the name is being removed.
		if err := p.pause(ctx, wait); err != nil {
			return provider.Instance{}, err
		}
	}
}

// refused is an error of a create. What the engine does not find then is the image or a network, and not the workspace.
func (p *Provider) refused(ctx context.Context, s spec, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case cerrdefs.IsNotFound(err):
		if _, e := p.client.ImageInspect(ctx, s.image); cerrdefs.IsNotFound(e) {
			return xerrors.Errorf("the image %s was removed meanwhile: %s", s.image, err.Error())
		}
		return provider.Permanent(xerrors.New(err.Error()))
	}
	return p.mapped(ctx, err)
}

// named is the container that has the name: ErrConflict if it is not the one of the request, ErrNotFound if there is none,
// or one that is on its way out.
func (p *Provider) named(ctx context.Context, req provider.CreateRequest) (found, error) {
	f, err := p.find(ctx, provider.Ref{Name: req.Name})
	switch {
	case err == nil && f.tags != req.Tags:
		return found{}, provider.ErrConflict
	case err == nil && f.State == container.StateRemoving:
		return found{}, provider.ErrNotFound
	case err == nil || !errors.Is(err, provider.ErrNotFound):
		return f, err
	}
	foreign, err := p.client.ContainerInspect(ctx, req.Name, client.ContainerInspectOptions{})
	if err != nil {
		return found{}, p.mapped(ctx, err)
	}
	if c := foreign.Container; c.Config != nil && c.Config.Labels[labelName] == req.Name {
		return found{}, provider.ErrNotFound // it came between the two questions: ask again
	}
	return found{}, provider.ErrConflict
}

// finish brings a container that was created to where it runs. One that has run is left as it is.
func (p *Provider) finish(ctx context.Context, req provider.CreateRequest, s spec, f found) (provider.Instance, error) {
	for wait := 20 * time.Millisecond; f.State == container.StateCreated; wait = min(2*wait, time.Second) {
		err := p.bringUp(ctx, req, s, f)
		if err == nil {
			break
		}
		// An engine lists a container a little before it knows its id, and so somebody else's create shows early.
		if !errors.Is(err, provider.ErrNotFound) {
			return provider.Instance{}, err
		}
		if f, err = p.named(ctx, req); err != nil {
			return provider.Instance{}, err
		}
		if err := p.pause(ctx, wait); err != nil {
			return provider.Instance{}, err
		}
	}
	is, err := p.find(ctx, provider.Ref{ProviderID: f.ID})
	if err != nil {
		return provider.Instance{}, err
	}
	return is.instance(), nil
}

// bringUp does what comes between the creation of a container and its start, and starts it. All of it may be repeated.
func (p *Provider) bringUp(ctx context.Context, req provider.CreateRequest, s spec, f found) error {
	if err := p.handOver(ctx, req, s, f.ID); err != nil {
		return err
	}
	for _, network := range s.networks[min(1, len(s.networks)):] {
		_, err := p.client.NetworkConnect(ctx, network, client.NetworkConnectOptions{Container: f.ID})
		if err != nil && !cerrdefs.IsConflict(err) && !cerrdefs.IsPermissionDenied(err) { // it is connected already
			return xerrors.Errorf("connect network %s: %w", network, p.missing(ctx, err))
		}
	}
	return p.start(ctx, f.ID)
}

// missing is mapped for a call that may not find something else than its container, which is permanent.
func (p *Provider) missing(ctx context.Context, err error) error {
	if cerrdefs.IsNotFound(err) && !strings.Contains(strings.ToLower(err.Error()), "no such container") {
		return provider.Permanent(xerrors.New(err.Error()))
	}
	return p.mapped(ctx, err)
}

// start starts a container. That its command cannot be run is permanent.
func (p *Provider) start(ctx context.Context, id string) error {
	if err := p.checkSources(ctx, id); err != nil {
		return err
	}
	_, err := p.client.ContainerStart(ctx, id, client.ContainerStartOptions{})
	if err != nil && strings.Contains(err.Error(), "unable to find user") { // which the engine calls an error of its own
		return provider.Permanent(xerrors.Errorf("start container: %w", err))
	}
	if err != nil {
		return xerrors.Errorf("start container: %w", p.missing(ctx, err))
	}
	return nil
}
