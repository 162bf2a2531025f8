package kubernetes

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// objectsOf are those of a request, which is checked before anything is done for it.
func (p *Provider) objectsOf(req provider.CreateRequest) (objects, error) {
	if err := provider.CheckName(req.Name); err != nil {
		return objects{}, err
	}
	s, problems := parseSpec(p.config, req.Spec, req.Parameters)
	if err := provider.SpecError(problems); err != nil {
		return objects{}, err
	}
	pod := s.build(req)
	if req.Callback.Token != "" {
		if err := p.addAgent(req, pod); err != nil {
			return objects{}, err
		}
	}
	return s.withClaims(req, pod), nil
}

// build makes the pod of a spec, but for its agent.
func (s spec) build(req provider.CreateRequest) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: req.Name, Labels: maps.Clone(s.pod.Labels), Annotations: maps.Clone(s.pod.Annotations)},
		Spec:       *s.pod.Spec.DeepCopy(),
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Labels, labels(req.Name, req.Tags))
	maps.Copy(pod.Annotations, map[string]string{
		noteOrganization: req.Organization, noteTemplate: req.Template, notePreset: req.Preset,
		noteContainer: workspaceContainer(s.pod.Annotations, s.pod.Spec.Containers),
	})
	maps.Copy(pod.Annotations, movable(s.evictUnclaimed))
	if len(s.warm) > 0 {
		full, _ := json.Marshal(s.warm.swap(&pod.Spec)) // of what was JSON before
		pod.Annotations[noteResources] = string(full)
	}
	if pod.Spec.AutomountServiceAccountToken == nil {
		pod.Spec.AutomountServiceAccountToken = new(bool)
	}
	environment := provider.Environment(req.Parameters, nil, provider.Identity(req.Name, req.Tags, req.Template, req.Preset))
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			all[i].Env = slices.Concat(variables(environment), all[i].Env) // what comes later holds
		}
	}
	return pod
}

func variables(environment map[string]string) []corev1.EnvVar {
	var all []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		all = append(all, corev1.EnvVar{Name: name, Value: literal(environment[name])})
	}
	return all
}
