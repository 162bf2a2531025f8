// Package scale tests the provider kubernetes with as many pods as a large fleet has, on nodes that are simulated (`make k8s-scale`).
package scale_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

func TestMain(m *testing.M) { k8stest.Main(e2etest.Suite{M: m}) }

const document = `
providers:
  - {name: cluster, kind: kubernetes, inventory_every: 1m, creates_in_flight: 200, config: {kubeconfig: %q, qps: 500}}
  - {name: cloud, kind: sim, inventory_every: 10m, creates_in_flight: 200, config: {root: %q}}
templates:
  - name: pods
    provider: cluster
    boot_timeout: 20m
    spec:
      pod:
        spec:
          nodeSelector: {type: simulated}
          tolerations: [{key: simulated, operator: Exists}]
          containers: [{name: dev, image: "debian:12"}]
    presets: [{name: default, prebuilds: {instances: %[3]d}}]
  - name: simulated
    provider: cloud
    spec: {create_latency: 1ms, delete_latency: 1ms}
    presets: [{name: default, prebuilds: {instances: %[3]d}}]
`

// A pool of pods (PREWARM_PODS; 300) fills, with one write each. Claims are answered while the API server does not answer anybody, and
// cost no more than those of a pool of sim, in turns with which they are measured.
func TestManyPods(t *testing.T) {
	size := 300
	if given, err := strconv.Atoi(os.Getenv("PREWARM_PODS")); err == nil && given > 0 {
		size = given
	}
	cluster := k8stest.Shared(t)
	cluster.Simulate(t, max(1, size/100))
	page, err := os.ReadFile("../../../../docs/providers/kubernetes.md")
	require.NoError(t, err)
	role := regexp.MustCompile("(?s)```yaml\n(apiVersion: rbac.*?)```").FindSubmatch(page)
	require.NotNil(t, role)
	namespace, kubeconfig := cluster.Namespace(t, string(role[1]))
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: time.Second})
	c := server.Client
	begun := time.Now()
	_, err = c.Apply(t.Context(), sdk.ApplyRequest{Document: fmt.Sprintf(document, kubeconfig, t.TempDir(), size), File: "test.yaml"})
	require.NoError(t, err)
	full := func(template string) bool {
		p, err := c.Preset(t.Context(), template, "default")
		return err == nil && p.Counts.Eligible == size
	}
	require.Eventually(t, func() bool { return full("pods") && full("simulated") }, 30*time.Minute, 500*time.Millisecond, "full pools")
	t.Logf("%d pods were ready after %s", size, time.Since(begun).Round(time.Second))
	before := audited(t, cluster, namespace)
	require.Equal(t, size, before["create pods"])
	for what, n := range before {
		verb, _, _ := strings.Cut(what, " ")
		require.True(t, what == "create pods" || slices.Contains([]string{"get", "list", "watch"}, verb), "%s, %d times", what, n)
	}
	t.Logf("requests to the API server: %v; the server has %d MiB", before, resident(t, server))

	_, err = c.Pause(t.Context(), sdk.PauseRequest{Scope: "global", Reason: "claims are measured"})
	require.NoError(t, err)
	cluster.Yield(t) // a cluster has machines of its own: what its work for the labels takes of these processors is not the claims'
	const workers = 8
	each := size / 10
	var pods, simulated figures
	var took, tookSimulated time.Duration
	claimed := 0
	shown := func() { // before the other's turn
		require.Eventually(t, func() bool { return audited(t, cluster, namespace)["patch pods"] >= claimed }, 10*time.Minute, 200*time.Millisecond,
			"each claimed pod shows its claim")
	}
	for turn := range 9 { // the first is for caches
		begun := time.Now()
		these := claim(t, c, "pods", workers, each)
		mine := time.Since(begun)
		claimed += each
		shown()
		begun = time.Now()
		those := claim(t, c, "simulated", workers, each)
		if turn > 0 {
			pods, simulated = append(pods, these...), append(simulated, those...)
			took, tookSimulated = took+mine, tookSimulated+time.Since(begun)
		}
	}
	t.Logf("claims of pods: %s, %.0f/s; of sim: %s, %.0f/s; pods take %.2f x the time of sim, p50 %.2f x, p99 %.2f x",
		pods, float64(len(pods))/took.Seconds(), simulated, float64(len(simulated))/tookSimulated.Seconds(), took.Seconds()/tookSimulated.Seconds(),
		pods.quantile(0.5).Seconds()/simulated.quantile(0.5).Seconds(), pods.quantile(0.99).Seconds()/simulated.quantile(0.99).Seconds())

	// Nobody answers the server any more: what is claimed then asks no API server.
	cluster.Freeze(t)
	late := claim(t, c, "pods", workers, each)
	cluster.Thaw(t)
	t.Logf("claims while the API server is frozen: %s", late)
	claimed += each
	shown() // what failed is made up for by an inventory
	require.LessOrEqual(t, audited(t, cluster, namespace)["patch pods"], claimed+claimed/10, "one write each, but where an inventory was there too")
	t.Logf("requests to the API server at the end: %v; the server has %d MiB", audited(t, cluster, namespace), resident(t, server))
}

// figures are how long claims took.
type figures []time.Duration

func (f figures) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(f))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (f figures) String() string {
	return fmt.Sprintf("%d, p50 %s, p99 %s", len(f), f.quantile(0.5).Round(time.Microsecond), f.quantile(0.99).Round(time.Microsecond))
}

// claim claims n, by so many clients at a time. Each must be a hit.
func claim(t *testing.T, c *sdk.Client, template string, clients, n int) (took figures) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	turns := make(chan struct{}, n)
	for range n {
		turns <- struct{}{}
	}
	close(turns)
	for range clients {
		all.Go(func() {
			for range turns {
				begun := time.Now()
				got, err := c.Claim(t.Context(), sdk.ClaimRequest{Template: template, Preset: "default", Mode: "require"})
				if err != nil || got.Outcome != "hit" {
					t.Errorf("claim: %v, outcome %q", err, got.Outcome)
					return
				}
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Len(t, took, n)
	return took
}

// audited counts the requests of the server in the namespace, by the API server's audit log.
func audited(t *testing.T, cluster *k8stest.Cluster, namespace string) map[string]int {
	t.Helper()
	log, err := os.ReadFile(cluster.AuditLog())
	require.NoError(t, err)
	all := map[string]int{}
	for line := range strings.Lines(string(log)) {
		var entry struct {
			Verb       string
			RequestURI string
			ObjectRef  struct{ Namespace, Resource string }
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.ObjectRef.Namespace == namespace && !strings.Contains(entry.RequestURI, "dryRun") {
			all[entry.Verb+" "+entry.ObjectRef.Resource]++
		}
	}
	return all
}

// resident is the memory of the server's process, in MiB.
func resident(t *testing.T, server *e2etest.Server) int {
	t.Helper()
	p, err := procfs.NewProc(server.PID())
	require.NoError(t, err)
	is, err := p.Stat()
	require.NoError(t, err)
	return is.ResidentMemory() >> 20
}
