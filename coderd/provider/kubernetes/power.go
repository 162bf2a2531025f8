package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"cdr.dev/slog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// CheckStop says whether workspaces of a valid spec can be stopped: those whose volumes stay.
func (p *Provider) CheckStop(raw json.RawMessage, parameters map[string]string) error {
	s, _ := parseSpec(p.config, raw, parameters)
	if len(s.claims) == 0 {
		return errNoVolumes
	}
	return nil
}

// Stop deletes the pod, and leaves its volumes. Before that it notes the stop on the anchor, so that a pod that somebody else deletes is not
// taken for a stopped one. It deletes the pod only if that has not changed since it last read the note: a start in between takes
// the note back, and then changes the pod.
func (p *Provider) Stop(ctx context.Context, ref provider.Ref) error {
	f, err := p.find(ctx, ref)
	if err != nil {
		return err
	}
	anchor, _ := anchorOf(f.Pod)
	if anchor == nil {
		return provider.Permanent(errNoVolumes)
	}
	if !f.stopped {
		if err := p.setStopped(ctx, f, true); err != nil {
			return err
		}
	}
	for !f.absent && f.DeletionTimestamp == nil {
		is, err := p.cluster.claim(ctx, anchor.Name)
		if err != nil {
			return mapped(ctx, err)
		}
		if !isStopped(is) {
			return errStarted
		}
		err = p.cluster.removeIf(ctx, "pods", f.Name, metav1.Preconditions{UID: &f.UID, ResourceVersion: &f.ResourceVersion})
		if err == nil || apierrors.IsNotFound(err) {
			break
		}
		if !apierrors.IsConflict(err) {
			return mapped(ctx, err)
		}
		if f, err = p.find(ctx, ref); err != nil {
			return err
		}
	}
	if f.absent {
		return nil
	}
	return p.waitGone(ctx, f)
}

// errStarted is what a stop ends with that a start has overtaken.
var errStarted = errors.New("it was started meanwhile")

// Start makes the pod again, with the volumes that stayed.
func (p *Provider) Start(ctx context.Context, ref provider.Ref) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		f, err := p.find(ctx, ref)
		if err != nil {
			return err
		}
		if anchor, _ := anchorOf(f.Pod); anchor == nil {
			return provider.Permanent(errNoVolumes)
		}
		switch {
		case f.lacks != "":
			return provider.Permanent(errors.New(f.judge().detail))
		case !f.absent && f.DeletionTimestamp != nil:
			err = p.waitGone(ctx, f)
			if err == nil {
				continue
			}
		case f.absent:
			err = p.makeAgain(ctx, f)
		}
		if err == nil {
			err = p.started(ctx, f)
		}
		if !errors.Is(err, errAgain) {
			return err
		}
		if err := p.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// errAgain: what there is has changed, and is to be looked at again.
var errAgain = errors.New("look again")

// makeAgain makes the pod of a stopped workspace.
func (p *Provider) makeAgain(ctx context.Context, f found) error {
	err := p.create(ctx, "pods", f.Pod, &corev1.Pod{})
	if !apierrors.IsAlreadyExists(err) {
		return refused(ctx, p.cluster.namespace, err)
	}
	there, err := p.cluster.pod(ctx, f.Name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return mapped(ctx, err)
	case f.isOf(there): // of a start at the same time
	default:
		if tags, ours := tagsOf(there.Name, there.Labels); !ours || tags != f.tags {
			return provider.ErrConflict
		}
		if err := p.cluster.remove(ctx, "pods", there.Name, there.UID); !gone(err) { // it hangs on a volume claim that is gone
			return mapped(ctx, err)
		}
	}
	return errAgain
}

// started takes back that a workspace is stopped, whose pod is there, and has it show what its anchor was told meanwhile.
func (p *Provider) started(ctx context.Context, f found) error {
	anchor, _ := anchorOf(f.Pod)
	is, err := p.cluster.claim(ctx, anchor.Name)
	if err != nil {
		return mapped(ctx, err)
	}
	if isStopped(is) {
		if err := p.setStopped(ctx, f, false); err != nil {
			return err
		}
	}
	to := change{has: labels(f.Name, f.tags), annotations: map[string]string{}}
	if claim := is.Labels[labelClaim]; claim != "" && f.Labels[labelClaim] == "" {
		of := marked(claim, is.Annotations[labelOwner])
		to.labels, to.annotations = of.labels, of.annotations
	} else if f.absent || !isStopped(is) {
		return nil
	}
	to.annotations[noteStarted] = p.clock.Now("kubernetes", "start").UTC().Format(time.RFC3339Nano) // a stop that comes late finds another pod
	switch err := p.markPod(ctx, f.Name, to); {
	case errors.Is(err, provider.ErrNotFound):
		return errAgain
	case err != nil && ctx.Err() == nil: // an inventory makes up for it
		p.logger.Warn(ctx, "a pod that was started does not show its claim", slog.F("workspace", f.Name), slog.Error(err))
	}
	return ctx.Err()
}

func (p *Provider) setStopped(ctx context.Context, f found, stopped bool) error {
	anchor, _ := anchorOf(f.Pod)
	note := map[bool]string{true: "true", false: "false"}[stopped]
	return notOurs(ctx, p.cluster.note(ctx, claimResource, anchor.Name, change{
		uid: anchor.UID, has: labels(f.Name, f.tags), annotations: map[string]string{noteStopped: note},
	}, nil))
}
