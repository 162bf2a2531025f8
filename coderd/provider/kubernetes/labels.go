package kubernetes

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	// prefix begins the keys that are Prewarm's own.
	prefix = "prewarm.dev/"

	labelInstallation = prefix + "installation"
	labelWorkspace    = prefix + "workspace"
	labelIncarnation  = prefix + "incarnation"
	labelName         = prefix + "name"

	// Of a claimed one, written after the claim. The owner is an annotation too: not every name can be a label.
	labelClaim = prefix + "claim"
	labelOwner = prefix + "owner"

	noteOrganization = prefix + "organization"
	noteTemplate     = prefix + "template"
	notePreset       = prefix + "preset"
	noteResources    = prefix + "claimed-resources" // what containers are to have from the claim on
	noteEvict        = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	noteStay         = "karpenter.sh/do-not-disrupt"
	noteContainer    = "kubectl.kubernetes.io/default-container"
)

// labels are what make a pod, or what belongs to one, that workspace's.
func labels(name string, tags provider.Tags) map[string]string {
	return map[string]string{
		labelInstallation: tags.Installation.String(),
		labelWorkspace:    tags.WorkspaceID.String(),
		labelIncarnation:  strconv.Itoa(int(tags.Incarnation)),
		labelName:         name,
	}
}

// tagsOf reads the tags of an object. Without all of them it is not ours, and neither is a copy of one of ours, which has
// another name.
func tagsOf(name string, labels map[string]string) (provider.Tags, bool) {
	tags, ok := provider.TagsOf(labels[labelInstallation], labels[labelWorkspace], labels[labelIncarnation])
	return tags, ok && labels[labelName] == name
}

// movable says to those who empty nodes whether they may take a pod away: by default they may take none.
func movable(evict bool) map[string]string {
	return map[string]string{noteEvict: strconv.FormatBool(evict), noteStay: strconv.FormatBool(!evict)}
}

// idOf is the provider's id of a pod: by its name it can be read, by its UID it is no other.
func idOf(pod *corev1.Pod) string { return pod.Name + "/" + string(pod.UID) }

// parts of an id, or of a reference without one.
func parts(ref provider.Ref) (name string, uid types.UID) {
	if ref.ProviderID == "" {
		return ref.Name, ""
	}
	name, id, _ := strings.Cut(ref.ProviderID, "/")
	return name, types.UID(id)
}

// found is a pod of ours.
type found struct {
	*corev1.Pod
	tags provider.Tags
}

// instance is what the outside sees of a pod.
func (f found) instance() provider.Instance {
	notes := f.Annotations
	i := provider.Instance{
		ProviderID: idOf(f.Pod), Name: f.Name, Tags: f.tags, CreatedAt: f.CreationTimestamp.UTC(), KnownAs: []string{idOf(f.Pod)},
		Environment: provider.Identity(f.Name, f.tags, notes[noteTemplate], notes[notePreset]),
	}
	i.Marked = f.Labels[labelClaim] != "" && len(f.missing()) == 0
	for _, ip := range f.Status.PodIPs {
		i.Addresses = append(i.Addresses, provider.Address{Type: "ip", Address: ip.IP})
	}
	switch is := judge(f.Pod); {
	case is.failed:
		i.Status, i.Fault, i.Lost = provider.StatusError, is.detail, is.transient
	case f.Status.Phase == corev1.PodRunning:
		i.Status = provider.StatusRunning
	default: // it is about to start, or nobody knows
		i.Status = provider.StatusUnknown
	}
	return i
}

// container is the one that is the workspace.
func (f found) container() string { return workspaceContainer(f.Annotations, f.Spec.Containers) }

func workspaceContainer(annotations map[string]string, containers []corev1.Container) string {
	if name := annotations[noteContainer]; name != "" || len(containers) == 0 {
		return name
	}
	return containers[0].Name
}
