package kubernetes

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Stops says whether workspaces of a valid spec can be stopped: those whose volumes stay.
func (p *Provider) Stops(raw json.RawMessage, parameters map[string]string) error {
	s, _ := parseSpec(p.config, raw, parameters)
	if len(s.claims) == 0 {
		return errNoVolumes
	}
	return nil
}

// Stop deletes the pod, and leaves its volumes. It is written down before, so that a pod that somebody else deletes is told apart.
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
		if err := p.noteStopped(ctx, f, true); err != nil {
			return err
		}
	}
	if f.absent {
		return nil
	}
	if f.DeletionTimestamp == nil {
		if err := p.cluster.remove(ctx, "pods", f.Name, f.UID); !gone(err) {
			return mapped(ctx, err)
		}
	}
	return p.waitGone(ctx, f)
}

// Start makes the pod again, with the volumes that stayed.
func (p *Provider) Start(ctx context.Context, ref provider.Ref) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		f, err := p.find(ctx, ref)
		if err != nil {
			return err
		}
		anchor, template := anchorOf(f.Pod)
		switch {
		case anchor == nil:
			return provider.Permanent(errNoVolumes)
		case !f.absent && f.DeletionTimestamp != nil:
			if err := p.waitGone(ctx, f); err != nil {
				return err
			}
			continue
		case f.absent:
			err := p.create(ctx, "pods", f.Pod, f.Pod.DeepCopy())
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return refused(ctx, p.cluster.namespace, err)
			}
			if err != nil { // of somebody else, or of a start at the same time
				if there, err := p.cluster.pod(ctx, f.Name); err == nil && !f.isOf(there) {
					return provider.ErrConflict
				}
				if err := p.pause(ctx, wait); err != nil {
					return err
				}
				continue
			}
		}
		is, err := p.cluster.claim(ctx, claimName(f.Name, template))
		if err != nil {
			return mapped(ctx, err)
		}
		if claim := is.Labels[labelClaim]; claim != "" && f.Labels[labelClaim] == "" { // it came meanwhile
			to := marked(claim, is.Annotations[labelOwner])
			to.has = labels(f.Name, f.tags)
			if err := p.markPod(ctx, f.Name, to); err != nil {
				return err
			}
		}
		if !isStopped(is) {
			return nil
		}
		return p.noteStopped(ctx, f, false)
	}
}

func (p *Provider) noteStopped(ctx context.Context, f found, stopped bool) error {
	anchor, _ := anchorOf(f.Pod)
	note := map[bool]string{true: "true", false: "false"}[stopped]
	return absent(ctx, p.cluster.note(ctx, claimResource, anchor.Name, change{
		uid: anchor.UID, has: labels(f.Name, f.tags), annotations: map[string]string{noteStopped: note},
	}, nil))
}
