package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	// page is how many pods are read at once, so that a large fleet does not need memory for all of them.
	page = 500
	// listings is how often a listing is begun that took longer than the API server keeps its state for.
	listings = 3
)

// Get looks one up.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	f, err := p.find(ctx, ref)
	if err != nil {
		return provider.Instance{}, err
	}
	return f.instance(), nil
}

// List returns the installation's workspaces, by name, as they all were at one moment.
func (p *Provider) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	for range listings {
		all, err := p.list(ctx, installation)
		if !apierrors.IsResourceExpired(err) {
			return all, mapped(ctx, err)
		}
	}
	return nil, xerrors.Errorf("the listing of pods takes longer than the API server keeps it for, %d times", listings)
}

func (p *Provider) list(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Anchors come first: a pod that is made meanwhile is seen all the same.
	selector := labelInstallation + "=" + installation.String()
	anchors := map[string]found{}
	if err := p.listAnchors(ctx, selector, func(anchor *corev1.PersistentVolumeClaim) {
		if f, ok := ofAnchor(anchor); ok {
			anchors[idOf(f.Pod)] = f
		}
	}); err != nil {
		return nil, err
	}
	var all []provider.Instance
	options := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		pods, err := p.cluster.pods(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			tags, ok := tagsOf(pod.Name, pod.Labels)
			if !ok {
				continue
			}
			f := found{Pod: pod, tags: tags}
			f.stopped = pod.DeletionTimestamp != nil && anchors[idOf(pod)].stopped
			delete(anchors, idOf(pod))
			all = append(all, f.instance())
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			break
		}
	}
	for id, f := range anchors {
		if !f.stopped { // stopped or started since, or its pod was taken away
			var err error
			f, err = p.find(ctx, provider.Ref{ProviderID: id})
			if errors.Is(err, provider.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		all = append(all, f.instance())
	}
	for i := range all {
		all[i].Environment = nil
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// find returns what ref means.
func (p *Provider) find(ctx context.Context, ref provider.Ref) (found, error) {
	if err := ctx.Err(); err != nil {
		return found{}, err
	}
	name, uid, template := parts(ref)
	if !provider.ValidName(name) {
		return found{}, provider.ErrNotFound // nothing of ours
	}
	means := func(f found) bool {
		is := f.UID
		if anchor, _ := anchorOf(f.Pod); anchor != nil {
			is = anchor.UID
		}
		return (uid == "" || is == uid) && (ref.WorkspaceID == uuid.Nil || ref.WorkspaceID == f.tags.WorkspaceID)
	}
	pod, err := p.cluster.pod(ctx, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return found{}, mapped(ctx, err)
	}
	if err == nil {
		tags, ours := tagsOf(pod.Name, pod.Labels)
		if f := (found{Pod: pod, tags: tags}); ours && means(f) {
			f.stopped, err = p.stopping(ctx, pod)
			return f, err
		}
	}
	if uid != "" && template == "" {
		return found{}, provider.ErrNotFound // it has no volumes that could be there without it
	}
	f, err := p.findAnchor(ctx, name, template)
	if err != nil {
		return found{}, err
	}
	if !means(f) {
		return found{}, provider.ErrNotFound
	}
	return f, nil
}

// stopping says whether a pod ends since it is being stopped.
func (p *Provider) stopping(ctx context.Context, pod *corev1.Pod) (bool, error) {
	anchor, _ := anchorOf(pod)
	if anchor == nil || pod.DeletionTimestamp == nil {
		return false, nil
	}
	is, err := p.cluster.claim(ctx, anchor.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, mapped(ctx, err)
	}
	return err == nil && is.UID == anchor.UID && isStopped(is), nil
}

// Ready says what the pod's status does.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	f, err := p.find(ctx, ref)
	if err != nil {
		return provider.Readiness{}, err
	}
	is := f.judge()
	r := provider.Readiness{Ready: is.ready, Failed: is.failed, Transient: is.transient, Detail: is.detail}
	if is.failed && is.container != "" {
		lines, err := p.lastLines(ctx, f.Name, is.container, is.previous)
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return provider.Readiness{}, err
		}
		if lines != "" { // else they cannot be read any more
			r.Detail += "; its last output:\n" + lines
		}
	}
	return r, nil
}
