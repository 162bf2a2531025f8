package docker

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/wait"
)

// mapped makes an engine's answer one of package provider's: what does not exist is ErrNotFound, what a retry cannot mend
// is permanent, and of an engine that is not there it says so. All else may be tried again.
func (p *Provider) mapped(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case client.IsErrConnectionFailed(err), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return xerrors.Errorf("the container engine at %s does not answer: is it running, and may this user use it? %w",
			p.host, err)
	case cerrdefs.IsNotFound(err):
		return errors.Join(provider.ErrNotFound, err)
	case cerrdefs.IsInvalidArgument(err):
		return provider.Permanent(err)
	}
	return err
}

// pause waits a little, or until ctx ends.
func (p *Provider) pause(ctx context.Context, d time.Duration) error {
	return wait.For(ctx, p.clock, d, "docker", "pause")
}
