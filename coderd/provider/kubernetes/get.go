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

// List returns the installation's workspaces, by name.
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
	// A stop or a start in between is seen by what volume claims say before and after.
	selector := labelInstallation + "=" + installation.String()
	left, err := p.listLeft(ctx, selector)
	if err != nil {
		return nil, err
	}
	var all []provider.Instance
	add := func(is provider.Instance) {
		is.Environment = nil
		all = append(all, is)
	}
	var ending []found // with volumes: deleted, or stopped
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
			if anchor, _ := anchorOf(pod); anchor != nil && pod.DeletionTimestamp != nil {
				f.Pod = pod.DeepCopy() // of its page nothing else is kept
				f.stopped = left[idOf(pod)].stopped
				ending = append(ending, f)
			} else {
				add(f.instance())
			}
			delete(left, idOf(pod))
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			break
		}
	}
	doubt := len(ending) > 0
	for _, is := range left {
		doubt = doubt || !is.stopped
	}
	after := left
	if doubt {
		if after, err = p.listLeft(ctx, selector); err != nil {
			return nil, err
		}
	}
	for _, f := range ending {
		f.stopped = f.stopped || after[idOf(f.Pod)].stopped
		add(f.instance())
	}
	for id, before := range left {
		switch is, still := after[id]; {
		case before.stopped:
			add(before.instance)
		case still:
			add(is.instance)
		}
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
	f, err := p.findLeft(ctx, name)
	if err != nil {
		return found{}, err
	}
	if !means(f) {
		return found{}, provider.ErrNotFound
	}
	if !f.stopped { // it may have been started since
		if pod, err := p.cluster.pod(ctx, name); err == nil && f.isOf(pod) {
			return found{Pod: pod, tags: f.tags}, nil
		}
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
