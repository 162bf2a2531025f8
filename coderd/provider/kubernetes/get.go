package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
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
	var all []provider.Instance
	options := metav1.ListOptions{LabelSelector: labelInstallation + "=" + installation.String(), Limit: page}
	for {
		pods, err := p.cluster.pods(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if tags, ok := tagsOf(pod.Name, pod.Labels); ok {
				is := found{pod, tags}.instance()
				is.Environment = nil
				all = append(all, is)
			}
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// find returns the pod that ref means.
func (p *Provider) find(ctx context.Context, ref provider.Ref) (found, error) {
	if err := ctx.Err(); err != nil {
		return found{}, err
	}
	name, uid := parts(ref)
	if !provider.ValidName(name) {
		return found{}, provider.ErrNotFound // no pod of ours
	}
	pod, err := p.cluster.pod(ctx, name)
	if err != nil {
		return found{}, mapped(ctx, err)
	}
	tags, ours := tagsOf(pod.Name, pod.Labels)
	if !ours || uid != "" && pod.UID != uid || ref.WorkspaceID != uuid.Nil && ref.WorkspaceID != tags.WorkspaceID {
		return found{}, provider.ErrNotFound
	}
	return found{pod, tags}, nil
}

// Ready says what the pod's status does.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	f, err := p.find(ctx, ref)
	if err != nil {
		return provider.Readiness{}, err
	}
	is := judge(f.Pod)
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
