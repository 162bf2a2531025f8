package kubernetes

import (
	"context"
	"errors"

	"cdr.dev/slog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Mark writes the claim and its owner to the pod as labels, which a disruption budget can select. It also takes back that the pod
// is safe to evict, and then gives it what it was not to have before a claim. It asks nothing before: what the pod must be for that is in
// the request itself.
func (p *Provider) Mark(ctx context.Context, ref provider.Ref, claim provider.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, uid, template := parts(ref)
	if !provider.ValidName(name) {
		return provider.ErrNotFound // no pod of ours
	}
	to := marked(claim.ID.String(), claim.Owner)
	to.uid, to.has = uid, labels(name, claim.Tags)
	if template == "" {
		return p.markPod(ctx, name, to)
	}
	// Its pod comes and goes. One that is about to be started takes the marks from its anchor, and is looked at once more: it may have
	// been made just before.
	anchor := change{uid: uid, has: to.has, labels: to.labels, annotations: map[string]string{labelOwner: claim.Owner}}
	to.uid = ""
	err := p.markPod(ctx, name, to)
	if !errors.Is(err, provider.ErrNotFound) {
		return err
	}
	if err := p.cluster.note(ctx, claimResource, claimName(name, template), anchor, nil); err != nil {
		return notOurs(ctx, err)
	}
	if err := p.markPod(ctx, name, to); !errors.Is(err, provider.ErrNotFound) {
		return err
	}
	return nil
}

// marked is what a claimed pod shows.
func marked(claim, owner string) change {
	to := change{labels: map[string]string{labelClaim: claim}, annotations: movable(false)}
	to.annotations[labelOwner] = owner
	if len(validation.IsValidLabelValue(owner)) == 0 {
		to.labels[labelOwner] = owner
	}
	return to
}

// markPod writes marks to a pod, and has it get what it lacks then.
func (p *Provider) markPod(ctx context.Context, name string, to change) error {
	pod := &corev1.Pod{}
	if err := p.cluster.note(ctx, "pods", name, to, pod); err != nil {
		return notOurs(ctx, err)
	}
	if pod.DeletionTimestamp != nil {
		return provider.ErrNotFound
	}
	missing := found{Pod: pod}.missing()
	if len(missing) == 0 {
		return nil
	}
	err := p.cluster.resizePod(ctx, name, pod.UID, missing)
	switch {
	case apierrors.IsConflict(err):
		return provider.ErrNotFound
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // such as by a quota: the next inventory tries again
		p.logger.Warn(ctx, "a claimed pod keeps the resources of a warm one", slog.F("workspace", name), slog.Error(err))
	}
	return mapped(ctx, err)
}

// notOurs is what a change of an object failed by: ErrNotFound where another has its name, or it is nobody's any more.
func notOurs(ctx context.Context, err error) error {
	if apierrors.IsInvalid(err) {
		return provider.ErrNotFound
	}
	return mapped(ctx, err)
}
