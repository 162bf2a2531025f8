package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(m.Run()) // it has the cluster of its parent
	}
	k8stest.Main(e2etest.Suite{M: m})
}

// rounds is how often something is tried: a few times, or PREWARM_ROUNDS times.
func rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("PREWARM_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return few
}

// role is the one that the documentation has the server be given.
func role(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/providers/kubernetes.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: rbac.*?)```").FindSubmatch(page)
	require.NotNil(t, found)
	return string(found[1])
}

// place is a namespace with a provider.
type place struct {
	t         *testing.T
	cluster   *k8stest.Cluster
	namespace string
	config    kubernetes.Config
	*kubernetes.Provider
}

func newPlace(t *testing.T, labels ...string) *place {
	t.Helper()
	c := k8stest.Shared(t)
	namespace, kubeconfig := c.Namespace(t, role(t), labels...)
	p := &place{t: t, cluster: c, namespace: namespace, config: kubernetes.Config{
		Kubeconfig: kubeconfig, AgentImage: k8stest.Agent, CallbackHost: "prewarm.test",
	}}
	p.Provider = p.open()
	t.Cleanup(func() {
		if t.Failed() { // the server's log does not say what Kubernetes did
			for _, of := range []string{"pods", "events"} {
				out, err := c.Kubectl("", "get", of, "--namespace", namespace, "--output", "wide", "--sort-by", ".metadata.creationTimestamp")
				t.Logf("%s of %s: %s (%v)", of, namespace, out, err)
			}
		}
	})
	return p
}

func (p *place) open() *kubernetes.Provider {
	p.t.Helper()
	made, err := kubernetes.New(p.t.Context(), kubernetes.Options{Config: p.config, Logger: slog.Make(sloghuman.Sink(os.Stderr))})
	require.NoError(p.t, err)
	return made
}

// kubectl runs kubectl as the administrator, in the namespace.
func (p *place) kubectl(args ...string) string {
	p.t.Helper()
	return p.cluster.Must(p.t, "", append(args, "--namespace", p.namespace)...)
}

// spec is one of the guest's image, with more fields of its container and its pod.
func spec(container, pod string) json.RawMessage {
	return fmt.Appendf(nil, `{"pod": {"spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "dev", "image": %q,
		"imagePullPolicy": "Never"%s}]%s}}}`, k8stest.Guest, container, pod)
}

// withVolumes is one with two volumes, at /home and /cache.
func withVolumes(container string) json.RawMessage {
	claim := func(name string) string {
		return fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": %q,
			"resources": {"requests": {"storage": "1Mi"}}}}`, name, k8stest.Storage)
	}
	mounts := `, "volumeMounts": [{"name": "home", "mountPath": "/home"}, {"name": "cache", "mountPath": "/cache"}]`
	return fmt.Appendf(nil, `{"volume_claim_templates": [%s, %s], %s`, claim("home"), claim("cache"), spec(container+mounts, "")[1:])
}

func request(spec json.RawMessage) provider.CreateRequest {
	return provider.CreateRequest{
		Name: "guest-" + strings.ToLower(rand.Text()[:8]), Organization: "default", Template: "guests", Preset: "small",
		Tags: provider.Tags{Installation: uuid.New(), WorkspaceID: uuid.New(), Incarnation: 1}, Spec: spec,
		Parameters: map[string]string{"region-a": "north"},
	}
}

func (p *place) create(req provider.CreateRequest) provider.Instance {
	p.t.Helper()
	p.t.Cleanup(func() {
		_ = p.Delete(context.WithoutCancel(p.t.Context()), provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID})
	})
	i, err := p.Create(p.t.Context(), req)
	require.NoError(p.t, err)
	return i
}

func refOf(i provider.Instance) provider.Ref {
	return provider.Ref{Name: i.Name, ProviderID: i.ProviderID, WorkspaceID: i.Tags.WorkspaceID}
}

// until asks for readiness until the answer is the one that is meant.
func (p *place) until(i provider.Instance, what string, meant func(provider.Readiness) bool) (r provider.Readiness) {
	p.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var err error
		r, err = p.Ready(p.t.Context(), refOf(i))
		require.NoError(p.t, err)
		if meant(r) {
			return r
		}
		if time.Now().After(deadline) {
			require.FailNow(p.t, what, "%+v\n%s", r, p.kubectl("describe", "pod", i.Name))
		}
	}
}

func (p *place) becomesReady(i provider.Instance) {
	p.t.Helper()
	p.until(i, "it becomes ready", func(r provider.Readiness) bool {
		require.False(p.t, r.Failed, r.Detail)
		return r.Ready
	})
}

func (p *place) run(i provider.Instance, req provider.ExecRequest) (int, string) {
	p.t.Helper()
	var out bytes.Buffer
	req.Stdout, req.Stderr = &out, &out
	code, err := p.Exec(p.t.Context(), refOf(i), req)
	require.NoError(p.t, err)
	return code, out.String()
}
