package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/xerrors"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// resources are amounts by the container that has them.
type resources map[string]corev1.ResourceRequirements

// resizable are what a container can get more of while it runs.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// sides are the two halves of what a container asks for.
func sides(r *corev1.ResourceRequirements) map[string]*corev1.ResourceList {
	return map[string]*corev1.ResourceList{"requests": &r.Requests, "limits": &r.Limits}
}

// warmResources reads what containers have until a claim, in place of some of what the pod says.
func (p *reader) warmResources(path string, raw json.RawMessage) resources {
	all, _ := decoded[resources](p, path, raw)
	return all
}

// small says of each amount that is warm whether a claim can make the pod's of it.
func (p *reader) small(path string, warm resources, pod corev1.PodSpec) {
	for name, amounts := range warm {
		at := path + "." + name
		i := containerAt(pod.Containers, name)
		if i < 0 {
			p.Add(at, "the pod has no container of that name, which is not an init container")
			continue
		}
		if len(amounts.Claims) > 0 {
			p.Add(at+".claims", "cannot change while a container runs")
		}
		for side, list := range sides(&amounts) {
			own := *sides(&pod.Containers[i].Resources)[side]
			for resource, amount := range *list {
				is := fmt.Sprintf("%s.%s.%s", at, side, resource)
				full, has := own[resource]
				switch {
				case !slices.Contains(resizable, resource):
					p.Add(is, "cannot change while a container runs: only cpu and memory can")
				case !has:
					p.Add(is, "the container has no %s.%s, so that a claim has nothing to raise it to", side, resource)
				case amount.Cmp(full) > 0:
					p.Add(is, "is more than the container's own, %s: it is what a pod has before a claim", full.String())
				}
			}
		}
	}
}

func containerAt(all []corev1.Container, name string) int {
	return slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
}

// swap gives containers of a pod these amounts, and returns those that they had in their place.
func (r resources) swap(pod *corev1.PodSpec) resources {
	before := resources{}
	for name, amounts := range r {
		own := &pod.Containers[containerAt(pod.Containers, name)].Resources
		was := corev1.ResourceRequirements{}
		for side, list := range sides(&amounts) {
			if len(*list) > 0 {
				*sides(&was)[side] = corev1.ResourceList{}
			}
			for resource, amount := range *list {
				(*sides(&was)[side])[resource] = (*sides(own)[side])[resource]
				if *sides(own)[side] == nil { // of a manifest that somebody else wrote
					*sides(own)[side] = corev1.ResourceList{}
				}
				(*sides(own)[side])[resource] = amount
			}
		}
		before[name] = was
	}
	return before
}

// grown is a pod as it is after a claim.
func grown(pod *corev1.Pod) *corev1.Pod {
	to := pod.DeepCopy()
	found{Pod: pod}.missing().swap(&to.Spec)
	return to
}

// missing is what a claimed pod is to have, where it does not.
func (f found) missing() resources {
	var full resources
	if json.Unmarshal([]byte(f.Annotations[noteResources]), &full) != nil {
		return nil // there is none, or somebody else wrote it
	}
	maps.DeleteFunc(full, func(name string, amounts corev1.ResourceRequirements) bool {
		i := containerAt(f.Spec.Containers, name)
		if i < 0 {
			return true
		}
		for side, list := range sides(&amounts) {
			own := *sides(&f.Spec.Containers[i].Resources)[side]
			for resource, amount := range *list {
				if is := own[resource]; is.Cmp(amount) != 0 {
					return false
				}
			}
		}
		return true
	})
	return full
}

// firstToResize is the first release whose clusters resize pods that run, for good.
var firstToResize = version.MustParseGeneric("1.35")

// growing says whether the cluster can do at a claim what warm_resources asks for: small and full are the pods of before and after.
func (p *Provider) growing(ctx context.Context, small, full *corev1.Pod) ([]provider.Problem, error) {
	problem := func(format string, args ...any) []provider.Problem {
		return []provider.Problem{{Path: "warm_resources", Message: fmt.Sprintf(format, args...)}}
	}
	is, err := p.cluster.version(ctx)
	if err != nil {
		return nil, xerrors.Errorf("ask for the cluster's version: %w", mapped(ctx, err))
	}
	if is.LessThan(firstToResize) {
		return problem("the cluster is Kubernetes %s, and pods that run can be resized from %s on", is, firstToResize), nil
	}
	if small.Status.QOSClass != full.Status.QOSClass {
		return problem("a pod's quality of service cannot change: with it the pod is %s, and without it %s", small.Status.QOSClass, full.Status.QOSClass), nil
	}
	may, err := p.cluster.may(ctx, authorizationv1.ResourceAttributes{
		Namespace: p.cluster.namespace, Verb: "patch", Resource: "pods", Subresource: "resize",
	})
	if err != nil {
		return nil, xerrors.Errorf("ask what the server may do: %w", mapped(ctx, err))
	}
	if !may {
		return problem("the server may not patch pods/resize in namespace %s: give it the role of docs/providers/kubernetes.md", p.cluster.namespace), nil
	}
	return nil, nil
}
