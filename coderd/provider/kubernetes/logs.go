package kubernetes

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Logs returns what the workspace's container wrote since it was last started, as far as its node keeps it. Followed, it
// goes on when the container is started again, until the pod is gone.
func (p *Provider) Logs(ctx context.Context, ref provider.Ref, follow bool) (io.ReadCloser, error) {
	f, err := p.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return provider.Written(cancel, func(w io.Writer) error { return p.copyLogs(ctx, w, f, follow) }), nil
}

// copyLogs copies one run of the container after the other. The API server refuses the log of one that has not started.
func (p *Provider) copyLogs(ctx context.Context, w io.Writer, f found, follow bool) error {
	ref := provider.Ref{ProviderID: idOf(f.Pod)}
	seen := "" // the run that was copied last
	for {
		if run := runOf(f); run != "" && run != seen {
			err := p.copyRun(ctx, w, f, follow)
			if !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
				if err != nil {
					return mapped(ctx, err)
				}
				seen = run
			}
		}
		if !follow {
			return nil
		}
		if err := p.pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		var err error
		if f, err = p.find(ctx, ref); errors.Is(err, provider.ErrNotFound) {
			return nil // the log has ended
		} else if err != nil {
			return err
		}
	}
}

// runOf identifies the latest run of the workspace's container; empty: there was none yet.
func runOf(f found) string {
	for _, c := range f.Status.ContainerStatuses {
		if c.Name == f.container() {
			return c.ContainerID
		}
	}
	return ""
}

func (p *Provider) copyRun(ctx context.Context, w io.Writer, f found, follow bool) error {
	logs, err := p.logs(ctx, f.Name, corev1.PodLogOptions{Container: f.container(), Follow: follow})
	if err != nil {
		return err
	}
	defer logs.Close()
	_, err = io.Copy(w, logs)
	return err
}

func (p *Provider) logs(ctx context.Context, pod string, options corev1.PodLogOptions) (io.ReadCloser, error) {
	return p.cluster.rest.Get().Namespace(p.cluster.namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(&options, parameters).Stream(ctx)
}

// lastLines are the end of what a container wrote, empty if that cannot be read.
func (p *Provider) lastLines(ctx context.Context, pod, container string, previous bool) (string, error) {
	lines, most := int64(10), int64(2<<10)
	logs, err := p.logs(ctx, pod, corev1.PodLogOptions{Container: container, Previous: previous, TailLines: &lines})
	if err != nil {
		return "", ctx.Err()
	}
	defer logs.Close()
	end := &provider.Tail{Limit: int(most)}
	_, _ = io.Copy(end, logs)
	return strings.TrimRight(end.String(), "\n"), ctx.Err()
}
