package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// spec is what a template's spec says, checked, with its parameters in the place of their references.
type spec struct {
	pod            corev1.PodTemplateSpec
	evictUnclaimed bool
	warm           resources                      // until a claim, in place of what pod says
	claims         []corev1.PersistentVolumeClaim // templates
}

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(c Config, raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	p := &reader{config: c, parameters: parameters}
	var s spec
	p.Mapping("", raw, specs.Fields{
		"pod": specs.To(&s.pod, p.pod), "evict_unclaimed": specs.To(&s.evictUnclaimed, p.Boolean),
		"warm_resources": specs.To(&s.warm, p.warmResources), "volume_claim_templates": specs.To(&s.claims, p.volumeClaims),
	})
	if !p.Has("pod") && len(s.pod.Spec.Containers) == 0 {
		p.Add("pod.spec.containers", "is missing: give at least one container, with name and image")
	}
	if !p.Has("pod") {
		p.small("warm_resources", s.warm, s.pod.Spec)
		if !p.Has("volume_claim_templates") {
			p.mounted("volume_claim_templates", s.claims, s.pod.Spec)
		}
	}
	p.Parameters(parameters)
	return s, p.Problems
}

type reader struct {
	specs.Reader
	config     Config
	parameters map[string]string
}

// pod reads the template of a pod, as Kubernetes has it.
func (p *reader) pod(path string, raw json.RawMessage) corev1.PodTemplateSpec {
	pod, ok := decoded[corev1.PodTemplateSpec](p, path, raw)
	if !ok {
		return pod
	}
	p.metadata(path+".metadata", pod)
	p.containers(path+".spec", pod)
	p.bounds(path+".spec", pod.Spec)
	return pod
}

// decoded is a value of Kubernetes' API, with parameters in the place of their references; its zero value and false where it does not fit.
func decoded[T any](p *reader, path string, raw json.RawMessage) (T, bool) {
	var into, none T
	raw = p.substituted(path, raw)
	p.fit(path, raw, into)
	if p.Has(path) {
		return none, false
	}
	if err := json.Unmarshal(raw, &into); err != nil {
		p.Add(path, "%v", err)
		return none, false
	}
	return into, true
}

// reference is how a string of the spec names a parameter.
var reference = regexp.MustCompile(`\$\{parameters\.([^}]*)\}`)

// substituted is a value with parameters in the place of their references, which are in strings.
func (p *reader) substituted(path string, raw json.RawMessage) json.RawMessage {
	if !reference.Match(raw) {
		return raw
	}
	var list []json.RawMessage
	var mapping map[string]json.RawMessage
	var text string
	var to any
	switch {
	case json.Unmarshal(raw, &list) == nil:
		for i := range list {
			list[i] = p.substituted(fmt.Sprintf("%s[%d]", path, i), list[i])
		}
		to = list
	case json.Unmarshal(raw, &mapping) == nil:
		for key, value := range mapping {
			mapping[key] = p.substituted(path+"."+key, value)
		}
		to = mapping
	case json.Unmarshal(raw, &text) == nil:
		to = reference.ReplaceAllStringFunc(text, func(found string) string {
			name := reference.FindStringSubmatch(found)[1]
			value, known := p.parameters[name]
			if !known {
				p.Add(path, "%s: the preset has no parameter %q; it has %s", found, name, orNone(p.parameters))
			}
			return value
		})
	}
	replaced, _ := json.Marshal(to) // of what was JSON before
	return replaced
}

func orNone(parameters map[string]string) string {
	if len(parameters) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")
}

func (p *reader) metadata(path string, pod corev1.PodTemplateSpec) {
	known := pod.ObjectMeta
	known.Labels, known.Annotations = nil, nil
	if raw, _ := json.Marshal(known); string(raw) != "{}" {
		p.Add(path, "must have labels and annotations only: the rest is Prewarm's")
	}
	for name := range movable(false) {
		if _, set := pod.Annotations[name]; set {
			p.Add(path+".annotations."+name, "is Prewarm's: write evict_unclaimed: true next to pod, which holds until a claim")
		}
	}
	p.reserved(path, pod.ObjectMeta)
}

// reserved keeps keys that are Prewarm's own out of what a spec says.
func (p *reader) reserved(path string, meta metav1.ObjectMeta) {
	for key, all := range map[string]map[string]string{"labels": meta.Labels, "annotations": meta.Annotations} {
		for name := range all {
			if strings.HasPrefix(name, prefix) {
				p.Add(path+"."+key+"."+name, "keys that begin with %s are reserved", prefix)
			}
		}
	}
}

func (p *reader) containers(path string, pod corev1.PodTemplateSpec) {
	if len(pod.Spec.Containers) == 0 {
		p.Add(path+".containers", "is missing: give at least one container, with name and image")
		return
	}
	name := workspaceContainer(pod.Annotations, pod.Spec.Containers)
	if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
		p.Add(strings.TrimSuffix(path, ".spec")+".metadata.annotations."+noteContainer, "there is no container %q", name)
	}
	for at, c := range containersOf(path, pod.Spec) {
		if c.Name == "" {
			p.Add(at+".name", "is missing")
		}
		if c.Name == agentContainer {
			p.Add(at+".name", "%q is the name of the agent's container", agentContainer)
		}
		if c.Image == "" {
			p.Add(at+".image", "is missing: give the reference of an image, such as debian:12")
		}
		for i, v := range c.Env {
			if strings.HasPrefix(v.Name, "PREWARM_") {
				p.Add(fmt.Sprintf("%s.env[%d].name", at, i), "names that begin with PREWARM_ are reserved")
			}
		}
		for i, m := range c.VolumeMounts {
			if m.MountPath == agentDir || strings.HasPrefix(m.MountPath, agentDir+"/") {
				p.Add(fmt.Sprintf("%s.volumeMounts[%d].mountPath", at, i), "%s is the agent's", agentDir)
			}
		}
	}
}

// containersOf are all containers of a pod, by where they stand in its spec.
func containersOf(path string, s corev1.PodSpec) map[string]corev1.Container {
	all := map[string]corev1.Container{}
	for i, c := range s.InitContainers {
		all[fmt.Sprintf("%s.initContainers[%d]", path, i)] = c
	}
	for i, c := range s.Containers {
		all[fmt.Sprintf("%s.containers[%d]", path, i)] = c
	}
	return all
}
