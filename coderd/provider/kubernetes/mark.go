package kubernetes

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Mark shows on a pod whose it is, by labels that a disruption budget can select, and has nobody who empties nodes take it for
// one that may be evicted.
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
	if has(f.Labels, labels) && has(f.Annotations, notes) {
		return nil
	}
	if err := p.cluster.patchPod(ctx, f.Name, f.UID, labels, notes); !apierrors.IsConflict(err) {
		return mapped(ctx, err)
	}
	return provider.ErrNotFound // another has its name
}

func has(all, some map[string]string) bool {
	merged := maps.Clone(all)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, some)
	return maps.Equal(all, merged)
}
