package kubernetes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Check has the API server try to make the pod, without making it. Only what no retry would change is a problem: that a
// quota is used up now says nothing of later.
func (p *Provider) Check(ctx context.Context, req provider.CreateRequest) ([]provider.Problem, error) {
	pod, err := p.podOf(req)
	if err != nil {
		return []provider.Problem{{Message: err.Error()}}, nil //nolint:nilerr // what cannot be made of the spec is the problem
	}
	err = p.cluster.create(ctx, "pods", pod, &corev1.Pod{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil, nil
	}
	refusal := refused(ctx, p.cluster.namespace, err)
	if !provider.IsPermanent(refusal) {
		return nil, refusal
	}
	var problems []provider.Problem
	for _, cause := range causes(err) {
		if cause.Field != "" {
			problems = append(problems, provider.Problem{Path: "pod." + cause.Field, Message: cause.Message})
		}
	}
	if len(problems) == 0 {
		problems = []provider.Problem{{Path: "pod", Message: refusal.Error()}}
	}
	return problems, nil
}
