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

// watchFor is how long one watch lasts at least, and half of how long at most. The next one begins with all pods, and so reports
// what this one has missed.
const watchFor = 5 * time.Minute

// Observe watches the installation's pods, and reports those that fail, are being deleted or are gone. It keeps none of them in
// memory: at the beginning, and after a cut, the API server streams all of them.
func (p *Provider) Observe(ctx context.Context, installation uuid.UUID, trouble func(workspaceID uuid.UUID)) error {
	for {
		// A list as a stream is cheapest for the API server. Some refuse it, such as with an etcd before 3.5: by an answer, or by the
		// first event. These begin an ordinary watch with all pods too.
		streamed := !p.ordinaryWatch.Load()
		heard, err := p.observe(ctx, installation, trouble, streamed)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && streamed && !heard:
			p.ordinaryWatch.Store(true)
		case err != nil:
			return mapped(ctx, err)
		}
	}
}

// observe is one watch, to its end. heard: at least one event came.
func (p *Provider) observe(
	ctx context.Context, installation uuid.UUID, trouble func(uuid.UUID), streamed bool,
) (heard bool, _ error) {
	seconds := int64((watchFor + rand.N(watchFor)).Seconds())
	options := metav1.ListOptions{
		LabelSelector: labelInstallation + "=" + installation.String(), TimeoutSeconds: &seconds, Watch: true,
	}
	if streamed {
		options.SendInitialEvents, options.AllowWatchBookmarks = &streamed, true
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	events, err := p.cluster.watchPods(ctx, options)
	if err != nil {
		return false, err
	}
	defer events.Stop()
	begun := p.clock.Now()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return heard, apierrors.FromObject(event.Object)
		}
		heard = true
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type == watch.Bookmark {
			continue
		}
		tags, ours := tagsOf(pod.Name, pod.Labels)
		if !ours || tags.Installation != installation || event.Type != watch.Deleted && !judge(pod).failed {
			continue
		}
		// A stop is no trouble. Where the API server does not say whether it is one, the caller asks Get, as after each report.
		if stopping, err := p.stopping(ctx, pod); err != nil || !stopping {
			trouble(tags.WorkspaceID)
		}
	}
	if ctx.Err() == nil && p.clock.Since(begun) < time.Second {
		return heard, xerrors.New("the API server ends each watch of pods at once")
	}
	return heard, nil
}
