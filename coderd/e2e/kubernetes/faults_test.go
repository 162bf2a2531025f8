package kubernetes_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// rarely has no inventory do what a hint is to do.
const rarely = "    inventory_every: 1h\n"

// budget applies the manifest of a disruption budget that the documentation has.
func (p *place) budget() {
	p.t.Helper()
	page, err := os.ReadFile("../../../docs/providers/kubernetes.md")
	require.NoError(p.t, err)
	for _, block := range yamlBlock.FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], "kind: PodDisruptionBudget") {
			p.cluster.Must(p.t, block[1], "apply", "--namespace", p.namespace, "-f", "-")
			return
		}
	}
	require.Fail(p.t, "the documentation has no disruption budget")
}

// evict asks for it as those do who empty nodes.
func (p *place) evict(name string) error {
	_, err := p.cluster.Kubectl(fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": %q}}`, name, p.namespace),
		"create", "--raw", "/api/v1/namespaces/"+p.namespace+"/pods/"+name+"/eviction", "-f", "-")
	return err
}

func (p *place) field(name, path string) string {
	p.t.Helper()
	return p.kubectl("get", "pod", name, "-o", "jsonpath={"+path+"}")
}

func claimOf(t *testing.T, c *sdk.Client, template string) sdk.Claim {
	t.Helper()
	claim, err := c.Claim(t.Context(), sdk.ClaimRequest{Template: template, Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, "hit", claim.Outcome)
	return claim
}

// keepsFault waits until a claimed workspace has a fault that says why, and sees that it is claimed all the same.
func (p *place) keepsFault(c *sdk.Client, claim sdk.Claim, why string) {
	p.t.Helper()
	p.eventually("the claimed one has a fault: "+why, func() bool {
		w, err := c.Workspace(p.t.Context(), claim.Name)
		require.NoError(p.t, err)
		require.Equal(p.t, "claimed", w.State)
		return strings.Contains(w.Fault, why)
	})
}

// An unclaimed pod that is evicted or deleted is replaced by a hint alone. A claimed one shows its claim, cannot be evicted under
// the budget of the documentation, and has a fault if somebody deletes it all the same; it stays its user's, and is not
// replaced.
func TestFaults(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.budget()
	server := p.serverOf(dbtest.URL(t))
	c := server.Client
	apply(t, c, p.document(p.config.Kubeconfig, fmt.Sprintf(plain, 2), rarely))
	ready := p.isFull(c, 2)

	require.NoError(t, p.evict(ready[0]))
	p.kubectl("delete", "pod", ready[1], "--wait=false")
	next := p.isFull(c, 2)
	for _, name := range ready {
		require.NotContains(t, next, name)
	}
	p.kubectl("delete", "pod", next[0], "--force", "--grace-period=0")
	p.eventually("one that is gone at once is replaced", func() bool {
		is := named(t, c, "ready")
		return len(is) == 2 && is[0] != next[0] && is[1] != next[0]
	})

	p.isFull(c, 2)
	begun := time.Now()
	claim := claimOf(t, c, "plain")
	p.eventually("the pod shows its claim", func() bool {
		return p.field(claim.Name, `.metadata.labels.prewarm\.dev/claim`) == claim.ClaimID.String()
	})
	t.Logf("the claim is shown within %s", time.Since(begun))
	require.Equal(t, "owner owner", p.field(claim.Name, `.metadata.labels.prewarm\.dev/owner`)+" "+p.field(claim.Name, `.metadata.annotations.prewarm\.dev/owner`))
	p.eventually("the budget knows of it", func() bool {
		return p.kubectl("get", "poddisruptionbudget", "prewarm-claimed", "-o", "jsonpath={.status.currentHealthy}") == "1"
	})
	require.ErrorContains(t, p.evict(claim.Name), "disruption budget")
	for _, name := range p.isFull(c, 2, claim.Name) {
		require.NoError(t, p.evict(name), "unclaimed")
	}
	p.isFull(c, 2, claim.Name)

	p.kubectl("delete", "pod", claim.Name, "--wait=false")
	p.keepsFault(c, claim, "somebody deletes the pod")
	p.eventually("it is gone", func() bool {
		return p.kubectl("get", "pod", claim.Name, "--ignore-not-found", "-o", "name") == ""
	})
	p.isFull(c, 2)
	p.keepsFault(c, claim, "somebody deletes the pod")
	_, err := c.ReleaseWorkspace(t.Context(), claim.Name)
	require.NoError(t, err)
	p.eventually("it is over", func() bool {
		w, err := c.Workspace(t.Context(), claim.Name)
		return err == nil && w.State == "deleted"
	})
	p.isFull(c, 2)
}

// A mark is one request, and nothing is written to what is not the workspace: another of its name, or one that lacks a label.
func TestMark(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	i := p.create(request(spec("", "")))
	claim := provider.Claim{ID: uuid.New(), Owner: "A Name", Tags: i.Tags}
	before := len(p.audited())
	require.NoError(t, p.Mark(t.Context(), refOf(i), claim))
	require.NoError(t, p.Mark(t.Context(), refOf(i), claim))
	require.Len(t, p.audited(), before+2)
	require.Equal(t, claim.ID.String()+"  A Name", p.field(i.Name, `.metadata.labels.prewarm\.dev/claim`)+" "+
		p.field(i.Name, `.metadata.labels.prewarm\.dev/owner`)+" "+p.field(i.Name, `.metadata.annotations.prewarm\.dev/owner`))

	claim.ID = uuid.New()
	other := refOf(i)
	other.ProviderID = i.Name + "/" + uuid.NewString()
	for _, ref := range []provider.Ref{other, {Name: "nothing", ProviderID: "nothing/" + uuid.NewString()}, {Name: "not a name"}} {
		require.ErrorIs(t, p.Mark(t.Context(), ref, claim), provider.ErrNotFound)
	}
	later := claim
	later.Tags.Incarnation++
	require.ErrorIs(t, p.Mark(t.Context(), refOf(i), later), provider.ErrNotFound)
	for _, label := range []string{labelInstallation, labelWorkspace, labelIncarnation, labelName} {
		value := p.field(i.Name, ".metadata.labels."+strings.ReplaceAll(label, ".", `\.`))
		p.kubectl("label", "pod", i.Name, label+"-")
		require.ErrorIs(t, p.Mark(t.Context(), refOf(i), claim), provider.ErrNotFound, label)
		p.kubectl("label", "pod", i.Name, label+"="+value)
	}
	require.NotEqual(t, claim.ID.String(), p.field(i.Name, `.metadata.labels.prewarm\.dev/claim`))
	require.NoError(t, p.Mark(t.Context(), refOf(i), claim))
}

// Who empties nodes may take a pod only where the template says so, and only until it is claimed.
func TestEvictUnclaimed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	server := p.serverOf(dbtest.URL(t))
	document := p.document(p.config.Kubeconfig, fmt.Sprintf(plain, 1))
	const safe, stay = `.metadata.annotations.cluster-autoscaler\.kubernetes\.io/safe-to-evict`, `.metadata.annotations.karpenter\.sh/do-not-disrupt`
	apply(t, server.Client, document)
	name := p.isFull(server.Client, 1)[0]
	require.Equal(t, "false true", p.field(name, safe)+" "+p.field(name, stay))

	apply(t, server.Client, strings.Replace(document, "    spec:\n", "    spec:\n      evict_unclaimed: true\n", 1))
	p.eventually("the pool is of the new version", func() bool {
		is := p.isFull(server.Client, 1)
		return is[0] != name && p.field(is[0], safe)+" "+p.field(is[0], stay) == "true false"
	})
	claim := claimOf(t, server.Client, "plain")
	p.eventually("claimed, it may not be taken", func() bool { return p.field(claim.Name, safe)+" "+p.field(claim.Name, stay) == "false true" })
}

// A node that does not answer: Kubernetes asks for its pods to be deleted, and nobody does it. The unclaimed one is replaced, the claimed
// one has a fault, and both count toward the provider's maximum until the node is removed.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	node := p.namespace // a name that nothing else has
	p.cluster.Must(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}}`, node), "create", "-f", "-")
	t.Cleanup(func() { _, _ = p.cluster.Kubectl("", "delete", "node", node, "--ignore-not-found") })
	server := p.serverOf(dbtest.URL(t))
	c := server.Client
	pinned := strings.Replace(fmt.Sprintf(plain, 2), "terminationGracePeriodSeconds: 5", "nodeName: "+node+
		"\n          tolerations: [{operator: Exists, effect: NoSchedule}, {operator: Exists, effect: NoExecute, tolerationSeconds: 30}]", 1)
	apply(t, c, p.document(p.config.Kubeconfig, pinned, rarely, "    maximum: 4\n"))
	// The node's part is this test's: it says that the pods run, and then nothing more.
	runs := `{"status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}}`
	p.eventually("both are ready", func() bool {
		for _, name := range p.pods() {
			_, _ = p.cluster.Kubectl("", "patch", "pod", name, "--namespace", p.namespace, "--subresource=status", "-p", runs)
		}
		return len(named(t, c, "ready")) == 2
	})
	claim := claimOf(t, c, "plain")
	p.keepsFault(c, claim, "its node has a taint")
	p.eventually("the pool asks for others, up to the maximum", func() bool {
		all := strings.Fields(p.kubectl("get", "pods", "-o", "name"))
		require.LessOrEqual(t, len(all), 4, "what terminates counts until it is gone")
		return len(all) == 4 && len(named(t, c, "ready")) == 0
	})
	p.kubectl("delete", "node", node)
	p.eventually("the claimed one is gone", func() bool {
		return p.kubectl("get", "pod", claim.Name, "--ignore-not-found", "-o", "name") == ""
	})
	p.keepsFault(c, claim, "its node has a taint")
}
