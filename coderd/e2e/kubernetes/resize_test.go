package kubernetes_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// growing is a pool of pods that have little until they are claimed.
func growing(warm, own string) string {
	return strings.Replace(strings.Replace(fmt.Sprintf(plain, 2), "    spec:\n", "    spec:\n      warm_resources: {dev: "+warm+"}\n", 1),
		"name: dev,", "name: dev, resources: "+own+",", 1)
}

// growingMemory is a pool whose pods get more of everything by their claim.
var growingMemory = growing("{requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 32Mi}}",
	"{requests: {cpu: 20m, memory: 32Mi}, limits: {memory: 64Mi}}")

// amounts are what the first container of a pod has, and how often it was restarted.
func (p *place) amounts(name string) string {
	p.t.Helper()
	const of = ".status.containerStatuses[0]"
	return p.kubectl("get", "pod", name, "-o", "jsonpath={"+of+".resources.requests.cpu} {"+of+".resources.requests.memory} {"+
		of+".resources.limits.memory} {"+of+".restartCount}")
}

// A pod has little while it waits. The claim has it get its own amounts while it runs, without a request to the API server before
// the answer, and with one of each kind after it.
func TestWarmResources(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.serverOf(dbtest.URL(t)).Client
	apply(t, c, p.document(p.config.Kubeconfig, growingMemory, rarely)) // an inventory would mark what was just claimed too
	for _, name := range p.isFull(c, 2) {
		require.Equal(t, "10m 16Mi 32Mi 0", p.amounts(name))
	}

	begun := time.Now()
	claim := claimOf(t, c, "plain")
	p.eventually("it has its own amounts, and runs on", func() bool { return p.amounts(claim.Name) == "20m 32Mi 64Mi 0" })
	t.Logf("it has them %s after the claim", time.Since(begun))
	for _, name := range p.isFull(c, 2, claim.Name) {
		require.Equal(t, "10m 16Mi 32Mi 0", p.amounts(name))
	}
	writes := p.writes()
	require.Equal(t, []int{1, 1}, []int{writes["patch pods"], writes["patch pods/resize"]})
}

// A pod that was claimed while the server could not say so gets its own amounts by the next inventory.
func TestWarmResources_later(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.between()
	c := p.serverOf(dbtest.URL(t)).Client
	apply(t, c, p.document(b.kubeconfig, growingMemory, "    inventory_every: 10s\n"))
	p.isFull(c, 2)
	b.instead(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/resize") {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	claim := claimOf(t, c, "plain")
	p.eventually("the claim is shown", func() bool {
		return p.field(claim.Name, `.metadata.labels.prewarm\.dev/claim`) == claim.ClaimID.String()
	})
	require.Equal(t, "10m 16Mi 32Mi 0", p.amounts(claim.Name))
	b.instead(nil)
	p.eventually("an inventory makes up for it", func() bool { return p.amounts(claim.Name) == "20m 32Mi 64Mi 0" })
}

// What the cluster could not do at a claim is refused at apply, with the reason.
func TestWarmResources_refused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.between()
	server := p.serverOf(dbtest.URL(t))
	refused := func(document, why string) {
		_, err := server.Client.Apply(t.Context(), sdk.ApplyRequest{Document: document, File: "test.yaml"})
		require.ErrorContains(t, err, "warm_resources")
		require.ErrorContains(t, err, why)
	}
	good := growing("{requests: {cpu: 10m}}", "{requests: {cpu: 20m}}")
	refused(p.document(b.kubeconfig, growing("{requests: {cpu: 10m}}", "{requests: {cpu: 20m, memory: 32Mi}, limits: {cpu: 20m, memory: 32Mi}}")),
		"with it the pod is Burstable, and without it Guaranteed")

	b.when(func(r *http.Response) {
		if r.Request.URL.Path == "/version" {
			_ = r.Body.Close()
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"gitVersion": "v1.34.9-gke.100"}`)), -1
			r.Header.Del("Content-Length")
		}
	})
	refused(p.document(b.kubeconfig, good), "the cluster is Kubernetes 1.34.9, and pods that run can be resized from 1.35 on")
	b.when(nil)

	p.cluster.Must(t, strings.Replace(role(t), "resources: [pods/resize]", "resources: [pods/status]", 1), "apply", "-n", p.namespace, "-f", "-")
	p.eventually("it may not any more", func() bool {
		out, _ := p.cluster.Kubectl("", "auth", "can-i", "patch", "pods", "--subresource=resize", "-n", p.namespace, "--as", "prewarm")
		return strings.TrimSpace(out) == "no"
	})
	refused(p.document(b.kubeconfig, good), "the server may not patch pods/resize in namespace "+p.namespace)
	p.cluster.Must(t, role(t), "apply", "-n", p.namespace, "-f", "-")
	p.eventually("it may again", func() bool {
		_, err := server.Client.Apply(t.Context(), sdk.ApplyRequest{Document: p.document(b.kubeconfig, good), File: "test.yaml"})
		return err == nil
	})
}
