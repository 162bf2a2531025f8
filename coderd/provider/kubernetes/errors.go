package kubernetes

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/xerrors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/wait"
)

// mapped makes an API server's answer one of package provider's: what does not exist is ErrNotFound, and of a server that
// is not there it says so. All else may be tried again.
func mapped(ctx context.Context, err error) error {
	var refused *net.OpError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		return errors.Join(provider.ErrNotFound, err)
	case apierrors.IsUnauthorized(err):
		return xerrors.Errorf("the API server refuses the credentials of the provider's configuration: %w", err)
	case apierrors.IsForbidden(err):
		return xerrors.Errorf("the API server forbids it: give the role of docs/providers/kubernetes.md to the server: %w", err)
	case errors.As(err, &refused), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return xerrors.Errorf("the API server does not answer: %w", err)
	}
	return err
}

// Causes by which admission refuses a pod. What is not among them is a policy's refusal, which stays as it is.
var (
	quota = regexp.MustCompile(`exceeded quota|failed quota|insufficient quota|unable to check quota`)
	// role is what the authorizer says: the server's own permissions, which somebody may mend.
	role = regexp.MustCompile(`cannot create resource "\w+" in API group`)
)

// refused is an error of a create. What the API server does not find then is the namespace, and not the workspace.
func refused(ctx context.Context, namespace string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		return xerrors.Errorf("namespace %s is not there: create it, or name another in the provider's configuration: %s",
			namespace, err.Error())
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return xerrors.Errorf("namespace %s is being deleted: %w", namespace, err)
	case apierrors.IsForbidden(err) && quota.MatchString(err.Error()):
		return xerrors.Errorf("the namespace's quota is used up: raise it, or make the pool smaller: %w", err)
	case apierrors.IsForbidden(err) && !role.MatchString(err.Error()):
		return provider.Permanent(xerrors.Errorf("the cluster does not admit the pod: %w", err))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		strings.Contains(err.Error(), "admission webhook") && strings.Contains(err.Error(), "denied the request"):
		return provider.Permanent(err)
	}
	return mapped(ctx, err)
}

// causes are the fields that an API server finds wrong, each with what it says of it.
func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// pause waits a little, or until ctx ends.
func (p *Provider) pause(ctx context.Context, d time.Duration) error {
	return wait.For(ctx, p.clock, d, "kubernetes", "pause")
}
