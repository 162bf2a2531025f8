package kubernetes

import (
	"context"

	"cdr.dev/slog"
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
	name, uid := parts(ref)
	if !provider.ValidName(name) {
		return provider.ErrNotFound // no pod of ours
	}
	marks := map[string]string{labelClaim: claim.ID.String()}
	if len(validation.IsValidLabelValue(claim.Owner)) == 0 {
		marks[labelOwner] = claim.Owner
	}
	notes := movable(false)
	notes[labelOwner] = claim.Owner
	pod, err := p.cluster.labelPod(ctx, name, uid, labels(name, claim.Tags), marks, notes)
	if apierrors.IsInvalid(err) {
		return provider.ErrNotFound // another has its name, or it is nobody's any more
	}
	if err != nil {
		return mapped(ctx, err)
	}
	missing := found{Pod: pod}.missing()
	if len(missing) == 0 {
		return nil
	}
	err = p.cluster.resizePod(ctx, name, pod.UID, missing)
	switch {
	case apierrors.IsConflict(err):
		return provider.ErrNotFound
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // such as by a quota: the next inventory tries again
		p.logger.Warn(ctx, "a claimed pod keeps the resources of a warm one", slog.F("workspace", name), slog.Error(err))
	}
	return mapped(ctx, err)
}
