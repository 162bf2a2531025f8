package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Logs returns what the container wrote, as far as the engine keeps it.
func (p *Provider) Logs(ctx context.Context, ref provider.Ref, follow bool) (io.ReadCloser, error) {
	f, err := p.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	logs, err := p.logs(ctx, f.ID, time.Time{}, follow)
	if err != nil {
		cancel()
		return nil, err
	}
	return provider.Written(cancel, func(w io.Writer) error {
		return p.copyLogs(ctx, f.ID, &stamped{to: w}, logs, follow)
	}), nil
}

func (p *Provider) logs(ctx context.Context, id string, since time.Time, follow bool) (io.ReadCloser, error) {
	options := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Timestamps: true}
	if !since.IsZero() {
		options.Since = since.Format(time.RFC3339Nano)
	}
	logs, err := p.client.ContainerLogs(ctx, id, options)
	if err != nil {
		return nil, p.mapped(ctx, err)
	}
	return logs, nil
}

// copyLogs copies what there is. The engine follows a container until it stops: where that is followed, one that is
// started again is too, until it is gone.
func (p *Provider) copyLogs(ctx context.Context, id string, to *stamped, logs io.ReadCloser, follow bool) error {
	for {
		_, err := stdcopy.StdCopy(to, to, logs)
		_ = logs.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || !follow {
			return err
		}
		err = p.nextStart(ctx, id)
		if err == nil {
			to.seen = to.last
			logs, err = p.logs(ctx, id, to.seen, true)
		}
		if errors.Is(err, provider.ErrNotFound) {
			return nil // the log has ended
		}
		if err != nil {
			return err
		}
	}
}

// stamped writes what an engine says, each piece of which begins with its time, without these. What is not after seen
// was written before.
type stamped struct {
	to         io.Writer
	seen, last time.Time
}

func (s *stamped) Write(piece []byte) (int, error) {
	text := piece
	if stamp, rest, found := bytes.Cut(piece, []byte(" ")); found {
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			if !at.After(s.seen) {
				return len(piece), nil
			}
			s.last, text = at, rest
		}
	}
	if _, err := s.to.Write(text); err != nil {
		return 0, err
	}
	return len(piece), nil
}

// nextStart waits until a container that has stopped runs again; ErrNotFound if it is gone.
func (p *Provider) nextStart(ctx context.Context, id string) error {
	for {
		all, err := p.list(ctx, "id", id)
		if err != nil {
			return err
		}
		if len(all) == 0 || all[0].State == container.StateRemoving {
			return provider.ErrNotFound
		}
		if all[0].State == container.StateRunning {
			return nil
		}
		if err := p.pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}
