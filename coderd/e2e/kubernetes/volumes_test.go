package kubernetes_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// homeVolume is the part of a spec that gives each pod a volume of the name home.
const homeVolume = `      volume_claim_templates:
        - metadata: {name: home}
          spec: {accessModes: [ReadWriteOnce], storageClassName: ` + k8stest.Storage + `, resources: {requests: {storage: 1Mi}}}
`

// homes is a pool of pods with a volume each, which are stopped until they are claimed.
const homes = `
templates:
  - name: homes
    provider: cluster
    boot_timeout: 5m
    agent: {}
    spec:
      warm_resources: {dev: {requests: {cpu: 10m}}}
` + homeVolume + `      pod:
        spec:
          terminationGracePeriodSeconds: 5
          containers:
            - name: dev
              image: "` + k8stest.Guest + `"
              imagePullPolicy: Never
              command: [sh, -c, "echo boot >> /home/boots; exec /bin/guest serve"]
              resources: {requests: {cpu: 20m}}
              volumeMounts: [{name: home, mountPath: /home}]
    presets: [{name: default, prebuilds: {instances: 2, standby: stopped}}]
`

// Pods in standby are gone, and their volumes stay. A claim has one started with its volume, which shows the claim from the start and has
// its own resources. A pod that somebody takes away is no stopped one; and in the end nothing is left.
func TestStopped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.hasServerImage()
	server := p.serverOf(dbtest.URL(t))
	c, ctx := server.Client, t.Context()
	_, err := c.Apply(ctx, sdk.ApplyRequest{
		Document: p.document(p.config.Kubeconfig, strings.Replace(plain, "instances: %d", "instances: 1, standby: stopped", 1)), File: "test.yaml",
	})
	require.ErrorContains(t, err, "give the spec volume_claim_templates; or leave standby out")

	apply(t, c, p.document(p.config.Kubeconfig, homes, "    inventory_every: 10s\n"))
	var waiting []string
	stopped := func() bool {
		waiting = named(t, c, "standby")
		return len(waiting) == 2 && len(p.pods()) == 0
	}
	p.eventually("both are stopped", stopped)
	before := append([]string(nil), waiting...)
	begun := time.Now()
	p.eventually("an inventory finds them as they are meant to be", func() bool {
		all, err := c.Inventories(ctx, "cluster")
		require.NoError(t, err)
		return len(all) == 1 && all[0].Counts["ok"] == 2 && all[0].Last != nil && all[0].Last.CompleteAt != nil &&
			all[0].Last.CompleteAt.After(begun)
	})
	require.True(t, stopped())
	require.ElementsMatch(t, before, waiting)

	claim, err := c.Claim(ctx, sdk.ClaimRequest{Template: "homes", Preset: "default", Mode: "require", WaitReady: "2m"})
	require.NoError(t, err)
	require.Equal(t, "hit", claim.Outcome)
	require.Contains(t, before, claim.Name)
	as := []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + c.Token}
	shown := e2etest.Run(ctx, t, as, "workspace", "exec", claim.Name, "--", "cat", "/home/boots")
	require.Equal(t, "boot\nboot\n", shown.Stdout, shown.Stderr)
	require.Equal(t, claim.ClaimID.String(), p.field(claim.Name, `.metadata.labels.prewarm\.dev/claim`))
	require.Equal(t, "20m", p.field(claim.Name, `.spec.containers[0].resources.requests.cpu`))
	p.eventually("the kubelet has given it that", func() bool { // it says so later than that the pod is ready
		return p.field(claim.Name, `.status.containerStatuses[0].resources.requests.cpu`) == "20m"
	})
	require.Zero(t, p.writes()["patch pods/resize"], "it had its own resources from the start")

	p.kubectl("delete", "pod", claim.Name)
	p.keepsFault(c, claim, "somebody deletes the pod")
	require.Contains(t, p.kubectl("get", "persistentvolumeclaims", "-o", "name"), claim.Name)
	_, err = c.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	p.eventually("others are stopped", stopped)
	require.NotContains(t, waiting, claim.Name)
	p.eventually("its volume is gone", func() bool {
		return !strings.Contains(p.kubectl("get", "persistentvolumeclaims", "-o", "name"), claim.Name)
	})
	require.NoError(t, c.DeleteTemplate(ctx, "homes"))
	p.eventually("nothing is left", func() bool { return p.kubectl("get", "pods,secrets,persistentvolumeclaims", "-o", "name") == "" })
}

// A stop that comes late, after a start has found the pod running, leaves that alone: a claim has it by then.
func TestStop_overtaken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.between()
	i := p.create(request(withVolumes(`, "command": ["/bin/guest", "serve"]`)))
	p.becomesReady(i)
	was := p.field(i.Name, ".metadata.uid")

	direct := p.config.Kubeconfig
	p.config.Kubeconfig = b.kubeconfig
	late := p.open()
	p.config.Kubeconfig = direct
	reached, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.instead(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			once.Do(func() { close(reached) })
			<-held
		}
		return false
	})
	stopped := make(chan error)
	go func() { stopped <- late.Stop(t.Context(), refOf(i)) }()
	<-reached
	require.NoError(t, p.Start(t.Context(), refOf(i)))
	close(held)
	require.ErrorContains(t, <-stopped, "it was started meanwhile")
	is, err := p.Get(t.Context(), refOf(i))
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, is.Status)
	require.Equal(t, was, p.field(i.Name, ".metadata.uid"))
}
