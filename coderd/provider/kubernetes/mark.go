package kubernetes

import (
	"context"

	"cdr.dev/slog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Mark writes the claim and its owner to the pod as labels, which a disruption budget can select. It also takes back that the pod
// is safe to evict, and then gives it what it was not to have before a claim.
func (p *Provider) Mark(ctx context.Context, ref provider.Ref, claim provider.Claim) error {
	f, err := p.find(ctx, ref)
	if err != nil {
		return err
	}
	labels := map[string]string{labelClaim: claim.ID.String()}
	if len(validation.IsValidLabelValue(claim.Owner)) == 0 {
		labels[labelOwner] = claim.Owner
	}
	notes := movable(false)
	notes[labelOwner] = claim.Owner
	if !has(f.Labels, labels) || !has(f.Annotations, notes) {
		err = p.cluster.patchPod(ctx, f.Name, f.UID, labels, notes)
	}
	if missing := f.missing(); err == nil && len(missing) > 0 {
		err = p.cluster.resizePod(ctx, f.Name, f.UID, missing)
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // such as by a quota: the next inventory tries again
			p.logger.Warn(ctx, "a claimed pod keeps the resources of a warm one", slog.F("workspace", f.Name), slog.Error(err))
		}
	}
	if apierrors.IsConflict(err) {
		return provider.ErrNotFound // another has its name
	}
	return mapped(ctx, err)
}

func has(all, some map[string]string) bool {
	for key, value := range some {
		if is, there := all[key]; !there || is != value {
			return false
		}
	}
	return true
}
