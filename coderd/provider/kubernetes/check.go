package kubernetes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Check has the API server try to make the pod, without making it. Only what no retry would change is a problem: that a
// quota is used up now says nothing of later. A pod that a claim makes larger is tried as it is before and after.
func (p *Provider) Check(ctx context.Context, req provider.CreateRequest) ([]provider.Problem, error) {
	pod, err := p.podOf(req)
	if err != nil {
		return []provider.Problem{{Message: err.Error()}}, nil //nolint:nilerr // what cannot be made of the spec is the problem
	}
	small, problems, err := p.try(ctx, pod)
	if _, grows := pod.Annotations[noteResources]; !grows || len(problems) > 0 || err != nil || small == nil {
		return problems, err
	}
	full, problems, err := p.try(ctx, grown(pod))
	if len(problems) > 0 || err != nil || full == nil {
		return problems, err
	}
	return p.growing(ctx, small, full)
}

// try makes a pod without making it, and returns what it would be: nil if there is one of its name.
func (p *Provider) try(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, []provider.Problem, error) {
	made := &corev1.Pod{}
	err := p.cluster.create(ctx, "pods", pod, made, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsAlreadyExists(err) {
		return nil, nil, nil
	}
	if err == nil {
		return made, nil, nil
	}
	refusal := refused(ctx, p.cluster.namespace, err)
	if !provider.IsPermanent(refusal) {
		return nil, nil, refusal
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
	return nil, problems, nil
}
