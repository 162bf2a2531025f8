package kubernetes

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Delete deletes the pod, which has the grace of its spec to end, and its volume claims, and returns when the API server no longer has
// them. On a node that does not answer that never happens, and the pod counts for as long.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	f, err := p.find(ctx, ref)
	if errors.Is(err, provider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !f.absent && f.DeletionTimestamp == nil {
		if err := p.cluster.remove(ctx, "pods", f.Name, f.UID); !gone(err) {
			return mapped(ctx, err)
		}
	}
	if !f.absent {
		if err := p.waitGone(ctx, f); err != nil {
			return err
		}
	}
	if anchor, _ := anchorOf(f.Pod); anchor != nil {
		if err := p.removeClaims(ctx, f); err != nil {
			return err
		}
	}
	if !hasToken(f.Pod) {
		return nil
	}
	secret, err := p.cluster.secret(ctx, f.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return mapped(ctx, err)
	case !controlled(secret, f.Pod):
		return nil // of a pod that came after
	}
	return p.removeSecret(ctx, secret)
}

// gone says whether an object is deleted, by what was said of its deletion. A conflict is about the UID: another has its
// name.
func gone(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// waitGone waits until the pod is not there any more.
func (p *Provider) waitGone(ctx context.Context, f found) error {
	for wait := 50 * time.Millisecond; ; wait = min(wait*3/2, 2*time.Second) {
		is, err := p.cluster.pod(ctx, f.Name)
		switch {
		case apierrors.IsNotFound(err) || err == nil && is.UID != f.UID:
			return nil
		case err != nil:
			return mapped(ctx, err)
		}
		if err := p.pause(ctx, wait); err != nil {
			return err
		}
	}
}

func (p *Provider) removeSecret(ctx context.Context, secret *corev1.Secret) error {
	if err := p.cluster.remove(ctx, "secrets", secret.Name, secret.UID); !gone(err) {
		return mapped(ctx, err)
	}
	return nil
}
