package docker

import (
	"context"
	"strings"
	"sync"
	"time"

	"cdr.dev/slog"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"golang.org/x/sync/singleflight"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// pulls are those that are under way, of each image one at a time, and when the others ended.
type pulls struct {
	going  singleflight.Group
	pulled sync.Map // when, by reference
}

// image sees to it that the image is there, as the policy has it, and returns what it is.
func (p *Provider) image(ctx context.Context, s spec) (image.InspectResponse, error) {
	for asked := false; ; asked = true {
		if err := ctx.Err(); err != nil {
			return image.InspectResponse{}, err
		}
		is, err := p.client.ImageInspect(ctx, s.image)
		missing := cerrdefs.IsNotFound(err)
		switch {
		case err != nil && !missing:
			return image.InspectResponse{}, xerrors.Errorf("look up image %s: %w", s.image, p.mapped(ctx, err))
		case missing && s.pull == pullNever:
			return image.InspectResponse{}, provider.Permanent(xerrors.Errorf(
				"the container engine has no image %s, and `pull: never` says not to pull it", s.image))
		case missing && asked:
			return image.InspectResponse{}, xerrors.Errorf("the image %s was removed after it was pulled", s.image)
		case !missing && (asked || s.pull != pullAlways):
			return is.InspectResponse, nil
		case !missing && !p.stale(s.image):
			return is.InspectResponse, nil
		}
		if err := p.pull(ctx, s.image); err != nil {
			if missing || ctx.Err() != nil {
				return image.InspectResponse{}, xerrors.Errorf("pull image %s: %w", s.image, err)
			}
			// A registry that is away does not empty a pool whose image is here.
			p.logger.Warn(ctx, "pull image again: the one that is here is used", slog.F("image", s.image), slog.Error(err))
			return is.InspectResponse, nil
		}
	}
}

// stale says whether the last pull of an image is long ago. The first one to ask pulls it, and nobody else meanwhile.
func (p *Provider) stale(ref string) bool {
	last, ok := p.images.pulled.Load(ref)
	return !ok || p.clock.Since(last.(time.Time), "docker", "pulled") > p.config.PullEvery.Or(time.Hour)
}

// pull pulls an image, or waits for who does. It goes on when ctx ends, for whoever comes next.
func (p *Provider) pull(ctx context.Context, ref string) error {
	over := p.images.going.DoChan(ref, func() (any, error) { return nil, p.fetch(context.WithoutCancel(ctx), ref) })
	select {
	case pulled := <-over:
		return pulled.Err
	case <-ctx.Done():
		return xerrors.Errorf("it goes on in the background: %w", ctx.Err())
	}
}

func (p *Provider) fetch(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.PullTimeout.Or(30*time.Minute))
	defer cancel()
	start := p.clock.Now("docker", "pull")
	err := p.fetchOnce(ctx, ref)
	// One that failed is not asked for again at every create either, where an image is here.
	p.images.pulled.Store(ref, p.clock.Now("docker", "pull"))
	if err == nil {
		p.logger.Info(ctx, "pulled image", slog.F("image", ref), slog.F("took", p.clock.Since(start, "docker", "pull")))
	}
	return err
}

func (p *Provider) fetchOnce(ctx context.Context, ref string) error {
	auth, err := p.credentials(ref)
	if err != nil {
		return err
	}
	answer, err := p.client.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return p.pullError(ctx, err)
	}
	defer answer.Close()
	return p.pullError(ctx, answer.Wait(ctx))
}

// pullError is permanent where the registry says that there is no such image, or not for us. An engine says much of that
// in words only.
func (p *Provider) pullError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return p.mapped(ctx, err)
	}
	words := strings.ToLower(err.Error())
	for _, final := range []string{"manifest unknown", "pull access denied", "unauthorized", "repository does not exist"} {
		if strings.Contains(words, final) {
			return provider.Permanent(err)
		}
	}
	if cerrdefs.IsNotFound(err) || cerrdefs.IsUnauthorized(err) || cerrdefs.IsInvalidArgument(err) {
		return provider.Permanent(xerrors.New(err.Error())) // not ErrNotFound: the workspace is not meant
	}
	return p.mapped(ctx, err)
}

// prepull pulls what is configured and missing, in the background.
func (p *Provider) prepull(ctx context.Context) {
	for _, ref := range p.config.Prepull {
		go func(ctx context.Context) {
			if _, err := p.image(ctx, spec{image: ref, pull: pullMissing}); err != nil {
				p.logger.Warn(ctx, "prepull image", slog.F("image", ref), slog.Error(err))
			}
		}(context.WithoutCancel(ctx))
	}
}
