package kubernetes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Check has the API server try to make the pod, without making it. Only what no retry would change is a problem: that a
// quota is used up now says nothing of later. A pod that a claim makes larger is tried as it is before and after.
func (p *Provider) Check(ctx context.Context, req provider.CreateRequest) ([]provider.Problem, error) {
	wanted, err := p.objectsOf(req)
	if err != nil {
		return []provider.Problem{{Message: err.Error()}}, nil //nolint:nilerr // what cannot be made of the spec is the problem
	}
	for i, claim := range wanted.claims {
		problems, err := p.try(ctx, claimResource, fmt.Sprintf("volume_claim_templates[%d]", i), claim, &corev1.PersistentVolumeClaim{})
		if len(problems) > 0 || err != nil {
			return problems, err
		}
	}
	pod := wanted.pod
	small, problems, err := p.tryPod(ctx, pod)
	if _, grows := pod.Annotations[noteResources]; !grows || len(problems) > 0 || err != nil || small == nil {
		return problems, err
	}
	full, problems, err := p.tryPod(ctx, grown(pod))
	if len(problems) > 0 || err != nil || full == nil {
		return problems, err
	}
	return p.growing(ctx, small, full)
}

// tryPod makes a pod without making it, and returns what it would be: nil if there is one of its name.
func (p *Provider) tryPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, []provider.Problem, error) {
	made := &corev1.Pod{}
	problems, err := p.try(ctx, "pods", "pod", pod, made)
	if err != nil || len(problems) > 0 || made.Name == "" {
		return nil, problems, err
	}
	return made, nil, nil
}

// try makes an object without making it. What the API server would refuse for good are problems, by their place in the spec. Nothing is
// made of one whose name is taken.
func (p *Provider) try(ctx context.Context, resource, path string, object, made runtime.Object) ([]provider.Problem, error) {
	err := p.cluster.create(ctx, resource, object, made, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
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
			problems = append(problems, provider.Problem{Path: path + "." + cause.Field, Message: cause.Message})
		}
	}
	if len(problems) == 0 {
		problems = []provider.Problem{{Path: path, Message: refusal.Error()}}
	}
	return problems, nil
}
