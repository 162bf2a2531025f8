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
	labelVolume       = prefix + "volume" // of a volume claim: the name of its template

	// Of a claimed one, written after the claim. The owner is an annotation too: not every name can be a label.
	labelClaim = prefix + "claim"
	labelOwner = prefix + "owner"

	noteOrganization = prefix + "organization"
	noteTemplate     = prefix + "template"
	notePreset       = prefix + "preset"
	noteResources    = prefix + "claimed-resources" // what containers are to have from the claim on
	notePod          = prefix + "pod"               // on the first volume claim: the pod, for a start
	noteStopped      = prefix + "stopped"           // on the first volume claim: "true" while the pod is not meant to be there
	noteStarted      = prefix + "started"           // of a pod that a start found: when, so that it is another than a stop has seen
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

// idOf is the provider's id of a pod: by its name it can be read, by its UID it is no other. One with volumes comes and goes, and is known by
// the UID of its first volume claim, whose template's name follows.
func idOf(pod *corev1.Pod) string {
	if anchor, template := anchorOf(pod); anchor != nil {
		return pod.Name + "/" + string(anchor.UID) + "/" + template
	}
	return pod.Name + "/" + string(pod.UID)
}

// parts of an id, or of a reference without one.
func parts(ref provider.Ref) (name string, uid types.UID, template string) {
	if ref.ProviderID == "" {
		return ref.Name, "", ""
	}
	name, id, _ := strings.Cut(ref.ProviderID, "/")
	id, template, _ = strings.Cut(id, "/")
	return name, types.UID(id), template
}

// found is a workspace of ours: a pod, or what is left of one that has volumes.
type found struct {
	*corev1.Pod
	tags    provider.Tags
	absent  bool   // the pod is not there; it is the one that a start would make
	stopped bool   // it is not meant to be there
	lacks   string // of a stopped one: a volume claim that is not there, or not whole
}

// isOf says whether a pod is of the same workspace, and hangs on the same claim.
func (f found) isOf(pod *corev1.Pod) bool {
	tags, ours := tagsOf(pod.Name, pod.Labels)
	mine, _ := anchorOf(f.Pod)
	its, _ := anchorOf(pod)
	return ours && tags == f.tags && (mine == nil) == (its == nil) && (mine == nil || mine.UID == its.UID)
}

// judge decides what is known of it.
func (f found) judge() verdict {
	switch {
	case f.lacks != "":
		return lost("its volume claim " + f.lacks + " is gone, or its volume")
	case f.stopped:
		return verdict{detail: "it is stopped"}
	case f.absent:
		return lost("its pod is gone; its volumes are there")
	}
	return judge(f.Pod)
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
	switch is := f.judge(); {
	case is.failed:
		i.Status, i.Fault, i.Lost = provider.StatusError, is.detail, is.transient
	case f.stopped:
		i.Status = provider.StatusStopped
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
