package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

func answer(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}

// What an API server refuses is permanent or not, by whether a retry may help.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err       error
		permanent bool
		says      string
	}{
		"quota": {answer(http.StatusForbidden, metav1.StatusReasonForbidden, `pods "prebuild-a" is forbidden: exceeded quota: pods, `+
			`requested: pods=1, used: pods=10, limited: pods=10`), false, "quota is used up"},
		"pod security": {answer(http.StatusForbidden, metav1.StatusReasonForbidden, `pods "prebuild-a" is forbidden: violates PodSecurity `+
			`"restricted:latest": allowPrivilegeEscalation != false`), true, "does not admit"},
		"limit range": {answer(http.StatusForbidden, metav1.StatusReasonForbidden, `pods "prebuild-a" is forbidden: maximum memory usage per `+
			`Container is 1Gi, but limit is 2Gi`), true, "does not admit"},
		"role": {answer(http.StatusForbidden, metav1.StatusReasonForbidden, `pods is forbidden: User "system:serviceaccount:prewarm:server" `+
			`cannot create resource "pods" in API group "" in the namespace "work"`), false, "role of docs/providers/kubernetes.md"},
		"webhook": {
			answer(http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "policy.test" denied the request: no latest`),
			true, "denied the request",
		},
		"webhook, of another code": {answer(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			`admission webhook "policy.test" denied the request: no latest`), true, "denied the request"},
		"webhook is away": {answer(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			`Internal error occurred: failed calling webhook "policy.test": connection refused`), false, "failed calling webhook"},
		"invalid":      {answer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `Pod "a" is invalid`), true, "invalid"},
		"bad request":  {answer(http.StatusBadRequest, metav1.StatusReasonBadRequest, `strict decoding error`), true, "strict"},
		"namespace":    {answer(http.StatusNotFound, metav1.StatusReasonNotFound, `namespaces "work" not found`), false, "create it"},
		"credentials":  {answer(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, `Unauthorized`), false, "refuses the credentials"},
		"overload":     {answer(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, `too many requests`), false, "too many"},
		"server error": {answer(http.StatusInternalServerError, metav1.StatusReasonInternalError, `etcdserver: leader changed`), false, "etcd"},
		"not there":    {syscall.ECONNREFUSED, false, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(t.Context(), "work", c.err)
			assert.Equal(t, c.permanent, provider.IsPermanent(err), "%v", err)
			assert.ErrorContains(t, err, c.says)
			assert.NotErrorIs(t, err, provider.ErrNotFound) // which would say that the workspace is gone
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			assert.Equal(t, context.Canceled, refused(ended, "work", c.err))
		})
	}
	assert.NoError(t, refused(t.Context(), "work", nil))
	assert.ErrorIs(t, mapped(t.Context(), answer(http.StatusNotFound, metav1.StatusReasonNotFound, "pods")), provider.ErrNotFound)
	assert.True(t, gone(answer(http.StatusConflict, metav1.StatusReasonConflict, "UID in precondition")))
	assert.False(t, gone(errors.New("timeout")))
}
