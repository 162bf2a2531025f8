package kubernetes

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watchFor is how long one watch lasts, so that what it has missed is told by the next; up to twice as long.
const watchFor = 5 * time.Minute

// Observe watches the installation's pods, and tells of those that fail, are being deleted or are gone. It keeps nothing of
// them: what it begins with, and what comes after a cut, is what the API server streams.
func (p *Provider) Observe(ctx context.Context, installation uuid.UUID, trouble func(workspaceID uuid.UUID)) error {
	for {
		if err := p.observe(ctx, installation, trouble); err != nil {
			return mapped(ctx, err)
		}
	}
}

// observe is one watch, to its end.
func (p *Provider) observe(ctx context.Context, installation uuid.UUID, trouble func(uuid.UUID)) error {
	all, seconds := true, int64((watchFor + rand.N(watchFor)).Seconds())
	options := metav1.ListOptions{
		LabelSelector: labelInstallation + "=" + installation.String(), TimeoutSeconds: &seconds, Watch: true,
		SendInitialEvents: &all, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	events, err := p.cluster.watchPods(ctx, options)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) { // a cluster that has no such watch begins with all of itself
		options.SendInitialEvents, options.ResourceVersionMatch = nil, ""
		events, err = p.cluster.watchPods(ctx, options)
	}
	if err != nil {
		return err
	}
	defer events.Stop()
	begun := p.clock.Now()
	for event := range events.ResultChan() {
		switch pod, _ := event.Object.(*corev1.Pod); event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			if pod == nil {
				continue
			}
			tags, ours := tagsOf(pod.Name, pod.Labels)
			if ours && tags.Installation == installation && (event.Type == watch.Deleted || judge(pod).failed) {
				trouble(tags.WorkspaceID)
			}
		case watch.Error:
			return apierrors.FromObject(event.Object)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.clock.Since(begun) < time.Second {
		return xerrors.New("the API server ends each watch of pods at once")
	}
	return nil
}
