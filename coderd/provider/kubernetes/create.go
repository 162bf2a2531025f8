package kubernetes

import (
	"context"
	"errors"
	"time"

	"golang.org/x/xerrors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Create makes volume claims and the pod, or finds those that were made before, and what is missing.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	wanted, err := p.objectsOf(req)
	if err != nil {
		return provider.Instance{}, err
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if err := p.createClaims(ctx, req, wanted); err != nil {
			return provider.Instance{}, err
		}
		f, err := p.createPod(ctx, req, wanted.pod)
		switch {
		case err == nil && f.DeletionTimestamp == nil:
			if err := p.handOver(ctx, req, f); err != nil {
				return provider.Instance{}, err
			}
			return f.instance(), nil
		case err != nil && !errors.Is(err, provider.ErrNotFound):
			return provider.Instance{}, err
		}
		// Who has the name is on the way out.
		if err := p.pause(ctx, wait); err != nil {
			return provider.Instance{}, err
		}
	}
}

// createPod makes the pod, or finds the one that has the name: ErrConflict if that is not the one of the request,
// ErrNotFound if it has just gone.
func (p *Provider) createPod(ctx context.Context, req provider.CreateRequest, wanted *corev1.Pod) (found, error) {
	made := &corev1.Pod{}
	err := p.create(ctx, "pods", wanted, made)
	if err == nil {
		return found{Pod: made, tags: req.Tags}, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return found{}, refused(ctx, p.cluster.namespace, err)
	}
	there, err := p.cluster.pod(ctx, wanted.Name)
	if err != nil {
		return found{}, mapped(ctx, err)
	}
	if tags, ours := tagsOf(there.Name, there.Labels); !ours || tags != req.Tags {
		return found{}, provider.ErrConflict
	}
	f := found{Pod: there, tags: req.Tags}
	if !f.isOf(wanted) { // it hangs on a volume claim that is gone, and goes too
		if err := p.cluster.remove(ctx, "pods", there.Name, there.UID); !gone(err) {
			return found{}, mapped(ctx, err)
		}
		return found{}, provider.ErrNotFound
	}
	return f, nil
}

// create sends a request whose answer is waited for a little after ctx has ended. ErrNotFound of package provider is for
// what a create finds gone: a namespace that is not there is another error.
func (p *Provider) create(ctx context.Context, resource string, object, into runtime.Object) error {
	return provider.Lasting(ctx, p.clock, func(ctx context.Context) error {
		return p.cluster.create(ctx, resource, object, into, metav1.CreateOptions{})
	})
}

// handOver makes the secret with the agent's token. Its pod owns it, or what that hangs on, so that it goes with that.
func (p *Provider) handOver(ctx context.Context, req provider.CreateRequest, f found) error {
	if req.Callback.Token == "" {
		return nil
	}
	secret := secretOf(req, f.Pod)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := p.create(ctx, "secrets", secret, &corev1.Secret{})
		if !apierrors.IsAlreadyExists(err) {
			if err = refused(ctx, p.cluster.namespace, err); err != nil {
				return xerrors.Errorf("hand token to agent: %w", err)
			}
			return nil
		}
		there, err := p.cluster.secret(ctx, secret.Name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return xerrors.Errorf("hand token to agent: %w", mapped(ctx, err))
		case controlled(there, f.Pod):
			return nil
		case !p.ofPod(there):
			return xerrors.Errorf("hand token to agent: the secret %s is not ours: %w", secret.Name, provider.ErrConflict)
		default: // of a pod before, which is gone
			if err := p.removeSecret(ctx, there); err != nil {
				return xerrors.Errorf("hand token to agent: %w", err)
			}
		}
		if err := p.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// ofPod says whether a secret is one that was made for a pod of ours.
func (*Provider) ofPod(secret *corev1.Secret) bool {
	_, ours := tagsOf(secret.Name, secret.Labels)
	return ours && metav1.GetControllerOf(secret) != nil
}
