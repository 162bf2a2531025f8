package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/xerrors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// claimPrefix begins the names of the volume claims that are made here. No spec may name one: it would be another workspace's.
const claimPrefix = "prewarm."

// claimKind is the kind of an owner that is a volume claim.
const claimKind = "PersistentVolumeClaim"

// claimName is the name of a workspace's claim for one of its templates.
func claimName(name, template string) string { return claimPrefix + name + "." + template }

// volumeClaims reads templates of volume claims, as a StatefulSet has them.
func (p *reader) volumeClaims(path string, raw json.RawMessage) []corev1.PersistentVolumeClaim {
	all, _ := decoded[[]corev1.PersistentVolumeClaim](p, path, raw)
	for i := range all {
		p.volumeClaim(fmt.Sprintf("%s[%d]", path, i), &all[i])
	}
	return all
}

func (p *reader) volumeClaim(at string, claim *corev1.PersistentVolumeClaim) {
	if !provider.ValidName(claim.Name) {
		p.Add(at+".metadata.name", "must be a name of lower-case letters, digits and hyphens: containers mount the volume by it")
	}
	known := claim.ObjectMeta
	known.Name, known.Labels, known.Annotations = "", nil, nil
	if raw, _ := json.Marshal(known); string(raw) != "{}" {
		p.Add(at+".metadata", "must have name, labels and annotations only: the rest is Prewarm's")
	}
	p.reserved(at+".metadata", claim.ObjectMeta)
	if len(claim.Spec.AccessModes) == 0 {
		p.Add(at+".spec.accessModes", "is missing: write [ReadWriteOnce]")
	}
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.Sign() <= 0 {
		p.Add(at+".spec.resources.requests.storage", "is missing: give a size, such as 10Gi")
	}
	if raw, _ := json.Marshal(claim.Status); string(raw) != "{}" {
		p.Add(at+".status", "is the cluster's")
	}
	p.source(at+".spec", claim.Spec)
}

// source keeps what a new volume is made of within what the author of a template may have.
func (p *reader) source(at string, s corev1.PersistentVolumeClaimSpec) {
	if s.VolumeName != "" {
		p.Add(at+".volumeName", "cannot be the volume of all workspaces")
	}
	from := map[string]corev1.TypedObjectReference{}
	if r := s.DataSource; r != nil {
		from["dataSource"] = corev1.TypedObjectReference{APIGroup: r.APIGroup, Kind: r.Kind, Name: r.Name}
	}
	if r := s.DataSourceRef; r != nil {
		from["dataSourceRef"] = *r
	}
	for field, r := range from {
		switch {
		case r.Kind != claimKind:
			p.Add(at+"."+field+".kind", "must be %s: a snapshot may be one of another workspace", claimKind)
		case r.Namespace != nil:
			p.Add(at+"."+field+".namespace", "is another's")
		case strings.HasPrefix(r.Name, claimPrefix):
			p.Add(at+"."+field+".name", ofOthers, claimPrefix)
		}
	}
}

const ofOthers = "names that begin with %s are of the volumes of other workspaces"

// mounted says what is wrong with templates next to their pod.
func (p *reader) mounted(path string, claims []corev1.PersistentVolumeClaim, pod corev1.PodSpec) {
	seen := map[string]bool{}
	for i, claim := range claims {
		at := fmt.Sprintf("%s[%d].metadata.name", path, i)
		mounts := func(c corev1.Container) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == claim.Name }) ||
				slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == claim.Name })
		}
		switch {
		case seen[claim.Name], slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == claim.Name }):
			p.Add(at, "there are two volumes of the name %q", claim.Name)
		case !slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), mounts):
			p.Add(at, "no container has %q among its volumeMounts", claim.Name)
		}
		seen[claim.Name] = true
	}
}

// objects are what a workspace is made of, but for the secret of its agent.
type objects struct {
	pod    *corev1.Pod
	claims []*corev1.PersistentVolumeClaim // the first is the anchor
}

// withClaims adds the claims of a spec to its pod, which has all else already.
func (s spec) withClaims(req provider.CreateRequest, pod *corev1.Pod) objects {
	all := objects{pod: pod}
	for _, template := range s.claims {
		claim := template.DeepCopy()
		claim.TypeMeta = metav1.TypeMeta{}
		claim.ObjectMeta = metav1.ObjectMeta{Name: claimName(req.Name, template.Name), Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations)}
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		maps.Copy(claim.Labels, labels(req.Name, req.Tags))
		claim.Labels[labelVolume] = template.Name
		all.claims = append(all.claims, claim)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	if len(all.claims) > 0 {
		manifest, _ := json.Marshal(pod) // of what was JSON before
		if all.claims[0].Annotations == nil {
			all.claims[0].Annotations = map[string]string{}
		}
		all.claims[0].Annotations[notePod] = string(manifest)
	}
	return all
}

// tagsOfClaim reads the tags of a volume claim, and the workspace's name.
func tagsOfClaim(claim *corev1.PersistentVolumeClaim) (name string, tags provider.Tags, ours bool) {
	name = claim.Labels[labelName]
	tags, ours = tagsOf(name, claim.Labels)
	return name, tags, ours && claim.Name == claimName(name, claim.Labels[labelVolume])
}

// ownerOf names an object as the owner of others, which go with it.
func ownerOf(claim *corev1.PersistentVolumeClaim) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: claimKind, Name: claim.Name, UID: claim.UID}
}

// anchorOf is the claim that a pod hangs on, and the name of its template; nil: on none.
func anchorOf(pod *corev1.Pod) (owner *metav1.OwnerReference, template string) {
	for i := range pod.OwnerReferences {
		if owner := &pod.OwnerReferences[i]; owner.Kind == claimKind {
			if template, is := strings.CutPrefix(owner.Name, claimName(pod.Name, "")); is {
				return owner, template
			}
		}
	}
	return nil, ""
}

// leftOf reads a workspace from its volume claims, while its pod is not there: the pod that it returns is the one that a start would make.
// False where the anchor is not among them.
func leftOf(claims []corev1.PersistentVolumeClaim) (found, bool) {
	whole := map[string]bool{}
	var anchor *corev1.PersistentVolumeClaim
	pod := &corev1.Pod{}
	for i := range claims {
		whole[claims[i].Name] = claims[i].DeletionTimestamp == nil && claims[i].Status.Phase != corev1.ClaimLost
		if manifest := claims[i].Annotations[notePod]; manifest != "" && json.Unmarshal([]byte(manifest), pod) == nil {
			anchor = &claims[i]
		}
	}
	if anchor == nil {
		return found{}, false
	}
	name, tags, ours := tagsOfClaim(anchor)
	its, has := tagsOf(pod.Name, pod.Labels)
	if !ours || !has || its != tags || pod.Name != name || pod.Namespace != "" || pod.Annotations == nil {
		return found{}, false // somebody else wrote it
	}
	pod.CreationTimestamp, pod.OwnerReferences = anchor.CreationTimestamp, []metav1.OwnerReference{ownerOf(anchor)}
	if claim := anchor.Labels[labelClaim]; claim != "" { // it came while the pod was not there
		pod = grown(pod)
		of := marked(claim, anchor.Annotations[labelOwner])
		maps.Copy(pod.Labels, of.labels)
		maps.Copy(pod.Annotations, of.annotations)
	}
	f := found{Pod: pod, tags: tags, absent: true, stopped: isStopped(anchor)}
	for _, name := range claimsIn(pod) {
		if !whole[name] {
			f.lacks = name
		}
	}
	return f, true
}

// claimsIn are the names of the volume claims that were made for a pod. The anchor is the last.
func claimsIn(pod *corev1.Pod) (names []string) {
	anchor, _ := anchorOf(pod)
	for _, v := range pod.Spec.Volumes {
		if of := v.PersistentVolumeClaim; of != nil && strings.HasPrefix(of.ClaimName, claimName(pod.Name, "")) && of.ClaimName != anchor.Name {
			names = append(names, of.ClaimName)
		}
	}
	return append(names, anchor.Name)
}

// isStopped says whether the pod of an anchor is not there since it was stopped.
func isStopped(anchor *corev1.PersistentVolumeClaim) bool {
	return anchor.Annotations[noteStopped] == "true"
}

// findLeft returns a workspace whose pod is not there.
func (p *Provider) findLeft(ctx context.Context, name string) (found, error) {
	all, err := p.cluster.claims(ctx, metav1.ListOptions{LabelSelector: labelName + "=" + name})
	if err != nil {
		return found{}, mapped(ctx, err)
	}
	if f, is := leftOf(all.Items); is {
		return f, nil
	}
	return found{}, provider.ErrNotFound
}

// createClaims makes the volume claims of a workspace, or finds those that were made before, and has its pod hang on the first.
func (p *Provider) createClaims(ctx context.Context, req provider.CreateRequest, wanted objects) error {
	for i, claim := range wanted.claims {
		made, err := p.createClaim(ctx, req, claim)
		if err != nil {
			return err
		}
		if i == 0 {
			owners := []metav1.OwnerReference{ownerOf(made)}
			wanted.pod.OwnerReferences = owners
			for _, other := range wanted.claims[1:] {
				other.OwnerReferences = owners
			}
		}
	}
	return nil
}

func (p *Provider) createClaim(ctx context.Context, req provider.CreateRequest, wanted *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		made := &corev1.PersistentVolumeClaim{}
		err := p.create(ctx, claimResource, wanted, made)
		if err == nil {
			return made, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, refused(ctx, p.cluster.namespace, err)
		}
		there, err := p.cluster.claim(ctx, wanted.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, mapped(ctx, err)
		}
		if err == nil {
			switch _, tags, ours := tagsOfClaim(there); {
			case !ours || tags != req.Tags:
				return nil, provider.ErrConflict
			case there.DeletionTimestamp == nil && sameOwner(there, wanted):
				return there, nil
			case there.DeletionTimestamp == nil: // of an anchor before, which is gone
				if err := p.cluster.remove(ctx, claimResource, there.Name, there.UID); !gone(err) {
					return nil, mapped(ctx, err)
				}
			}
		}
		if err := p.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func sameOwner(is, wanted *corev1.PersistentVolumeClaim) bool {
	uid := func(claim *corev1.PersistentVolumeClaim) types.UID {
		if len(claim.OwnerReferences) == 0 {
			return ""
		}
		return claim.OwnerReferences[0].UID
	}
	return uid(is) == uid(wanted)
}

// removeClaims deletes all volume claims of a workspace, and waits until they are gone. The anchor is the last, by which the others
// are found again. What a start that came late has made meanwhile goes too.
func (p *Provider) removeClaims(ctx context.Context, f found) error {
	for wait := 50 * time.Millisecond; ; wait = min(wait*3/2, 2*time.Second) {
		var there *corev1.PersistentVolumeClaim
		for _, name := range claimsIn(f.Pod) {
			claim, err := p.cluster.claim(ctx, name)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return mapped(ctx, err)
			}
			if _, tags, ours := tagsOfClaim(claim); !ours || tags != f.tags {
				continue
			}
			there = claim
			if claim.DeletionTimestamp == nil {
				if err := p.cluster.remove(ctx, claimResource, claim.Name, claim.UID); !gone(err) {
					return mapped(ctx, err)
				}
			}
		}
		if there == nil {
			return nil
		}
		pod, err := p.cluster.pod(ctx, f.Name)
		if err == nil && f.isOf(pod) && pod.DeletionTimestamp == nil {
			err = p.cluster.remove(ctx, "pods", pod.Name, pod.UID)
		}
		if !gone(err) {
			return mapped(ctx, err)
		}
		if err := p.pause(ctx, wait); err != nil {
			return xerrors.Errorf("volume claim %s is kept by %s: %w", there.Name, strings.Join(there.Finalizers, ", "), err)
		}
	}
}

// remains is a workspace whose pod is not there, for a listing.
type remains struct {
	instance provider.Instance
	stopped  bool
}

// listLeft reads the installation's workspaces with volumes from their volume claims, by the provider's id.
func (p *Provider) listLeft(ctx context.Context, selector string) (map[string]remains, error) {
	claims := map[string][]corev1.PersistentVolumeClaim{}
	options := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		list, err := p.cluster.claims(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, claim := range list.Items {
			claim.ManagedFields = nil // the largest part
			claims[claim.Labels[labelName]] = append(claims[claim.Labels[labelName]], claim)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	all := make(map[string]remains, len(claims))
	for _, of := range claims {
		if f, is := leftOf(of); is {
			all[idOf(f.Pod)] = remains{f.instance(), f.stopped}
		}
	}
	return all, nil
}

// errNoVolumes says why a pod cannot be stopped.
var errNoVolumes = errors.New("a pod is lost when it is stopped, but for its volumes: give the spec volume_claim_templates")
