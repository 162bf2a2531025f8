package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/tied"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Definitions of objects that are Kubernetes' only where somebody has installed them: the API server checks ours by them.
var definitions = map[string][]string{
	"sigs.k8s.io/gateway-api@v1.6.3": {"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
}

// gateway is the host, as pods of the cluster see it.
const gateway = "10.213.0.1"

// TestClusterChart installs the chart into a real cluster by Helm (`make chart-e2e`): every value set is valid to the API server,
// three replicas become ready under the restricted pod security standard, pods are claimed by the server's own role, a rolling
// upgrade under claims fails no request, and uninstall leaves nothing.
//
// The cluster has no proxy of services, no DNS and no router. So the test follows the endpoints of the service as those do,
// and the servers reach PostgreSQL and the API server at addresses of the host.
func TestClusterChart(t *testing.T) {
	if os.Getenv(k8stest.FolderVariable) == "" {
		missing(t, "a Kubernetes cluster to install the chart into: make chart-e2e builds and starts one")
	}
	engine := startEngine(t)
	engine.build(t, "prewarm.test/prewarm:1")
	engine.docker(t, "tag", "prewarm.test/prewarm:1", "prewarm.test/prewarm:2")
	cluster, err := k8stest.New()
	require.NoError(t, err)
	t.Cleanup(cluster.Remove)
	in := &installed{T: t, cluster: cluster}
	in.load(engine, "prewarm.test/prewarm:1", "prewarm.test/prewarm:2")
	in.define()
	in.cluster.Must(t, "", "create", "namespace", "prewarm")
	in.cluster.Must(t, "", "label", "namespace", "prewarm", "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
	for _, namespace := range []string{"blue", "green", "workspaces"} {
		in.cluster.Must(t, "", "create", "namespace", namespace)
	}
	in.validates()
	in.bridge()
	var before []string
	eventually(t, "the namespaces have what comes with them", func() bool {
		before = in.everything()
		return len(before) == 4 // an account and a certificate each
	})

	in.install()
	client := in.ownerOf()
	in.apply(client)
	in.claimsAPod(client)
	in.upgrades(client)
	in.uninstalls(client, before)
}

// installed is a chart in a cluster.
type installed struct {
	*testing.T

	cluster *k8stest.Cluster
	address string // at which the service is reached
	mu      sync.Mutex
	ready   []string // addresses of the service
}

// load puts images of the engine into the cluster's node.
func (in *installed) load(engine *dockerEngine, images ...string) {
	in.Helper()
	archive := filepath.Join(in.TempDir(), "images.tar")
	engine.docker(in, append([]string{"save", "--output", archive}, images...)...)
	out, err := exec.Command("ctr", "--address", filepath.Join(in.cluster.Dir, "containerd.sock"), "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
	require.NoError(in, err, "%s", out)
}

// define installs the definitions.
func (in *installed) define() {
	in.Helper()
	for module, files := range definitions {
		cmd := exec.Command("go", "mod", "download", "-json", module)
		cmd.Dir = in.TempDir() // no module
		out, err := cmd.Output()
		require.NoError(in, err, "%s", out)
		var found struct{ Dir string }
		require.NoError(in, json.Unmarshal(out, &found))
		for _, file := range files {
			in.cluster.Must(in, "", "apply", "--server-side", "-f", filepath.Join(found.Dir, file))
		}
	}
	eventually(in, "the API server serves what is defined", func() bool {
		_, err := in.cluster.Kubectl("", "get", "httproutes.gateway.networking.k8s.io,servicemonitors.monitoring.coreos.com,prometheusrules.monitoring.coreos.com",
			"--namespace", "default")
		return err == nil
	})
}

// validates has the API server try what each value set renders, without making it. A field that it does not know is an error.
func (in *installed) validates() {
	in.Helper()
	for _, values := range append(valueSets(in), "kubernetes/prewarm.yaml") {
		rendered, err := os.ReadFile(values)
		require.NoError(in, err)
		if values != "kubernetes/prewarm.yaml" {
			rendered = []byte(mustHelm(in, "template", "prewarm", chart, "--namespace", "prewarm", "--values", values))
		}
		out := in.cluster.Must(in, string(rendered), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		in.Logf("%s:\n%s", values, out)
	}
}

// bridge has a pod made, with which the network of the pods comes: from then on the host has an address there.
func (in *installed) bridge() {
	in.Helper()
	in.cluster.Must(in, "", "run", "first", "--namespace", "default", "--image", k8stest.Guest, "--image-pull-policy", "Never")
	in.cluster.Must(in, "", "wait", "--namespace", "default", "--for=condition=Ready", "--timeout=3m", "pod/first")
	in.cluster.Must(in, "", "delete", "pod", "first", "--namespace", "default", "--now")
}

// install installs release 1, and follows the endpoints of its service.
func (in *installed) install() {
	in.Helper()
	server := strings.TrimPrefix(in.cluster.Must(in, "", "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"), "https://")
	_, port, err := net.SplitHostPort(forward(in, gateway, func() (net.Conn, error) { return net.Dial("tcp", server) }))
	require.NoError(in, err)

	in.follow()
	in.address = forward(in, gateway, in.dial)
	in.shared()
	values := filepath.Join(in.TempDir(), "values.yaml")
	require.NoError(in, os.WriteFile(values, fmt.Appendf(nil, `
image: {repository: prewarm.test/prewarm, tag: "1", pullPolicy: Never}
database: {url: %q}
encryptionKeys: {value: "main:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
accessURL: http://%s
workspaceNamespaces: [workspaces]
extraArgs: [--tick=1s]
# There is no proxy of services: the API server is at the host.
extraEnv:
  - {name: KUBERNETES_SERVICE_HOST, value: kubernetes.default.svc}
  - {name: KUBERNETES_SERVICE_PORT, value: %q}
hostAliases: [{ip: %s, hostnames: [kubernetes.default.svc]}]
extraVolumes: [{name: shared, persistentVolumeClaim: {claimName: shared}}]
extraVolumeMounts: [{name: shared, mountPath: /shared}]
`, overTCP(in, dbtest.URL(in), gateway), in.address, port, gateway), 0o600))
	in.release("install", "prewarm", chart, "--values", values)
	require.Equal(in, "3", in.cluster.Must(in, "", "get", "deployment", "prewarm", "--namespace", "prewarm", "-o", "jsonpath={.status.readyReplicas}"))
}

// release runs Helm in the cluster, and waits as people have it wait.
func (in *installed) release(args ...string) {
	in.Helper()
	out, err := helm(in, []string{"KUBECONFIG=" + in.cluster.Kubeconfig}, append(args, "--namespace", "prewarm", "--wait", "--timeout", "5m")...)
	if err != nil {
		pods, _ := in.cluster.Kubectl("", "describe", "pods", "--namespace", "prewarm")
		logs, _ := in.cluster.Kubectl("", "logs", "--namespace", "prewarm", "--selector", "app.kubernetes.io/name=prewarm", "--tail", "20")
		require.NoError(in, err, "%s\n%s\n%s", out, pods, logs)
	}
	in.Log(out)
}

// shared is a folder of the host that all replicas have, for the provider sim.
func (in *installed) shared() {
	in.Helper()
	dir := filepath.Join(in.cluster.Dir, "shared")
	require.NoError(in, os.Mkdir(dir, 0o700))
	require.NoError(in, os.Chown(dir, 65532, 65532))
	in.cluster.Must(in, fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "shared"}, "spec": {
		"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "none", "hostPath": {"path": %q},
		"claimRef": {"namespace": "prewarm", "name": "shared"}}}`, dir), "create", "-f", "-")
	in.cluster.Must(in, `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "shared"}, "spec": {
		"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteMany"], "storageClassName": "none", "volumeName": "shared"}}`,
		"create", "--namespace", "prewarm", "-f", "-")
}

// follow keeps the ready addresses of the service, as a proxy of services and a router do.
func (in *installed) follow() {
	in.Helper()
	cmd := exec.Command(filepath.Join(os.Getenv(k8stest.FolderVariable), "kubectl"), "--kubeconfig", in.cluster.Kubeconfig, "get", "endpointslices",
		"--namespace", "prewarm", "--selector", "kubernetes.io/service-name=prewarm", "--watch", "--output", "json")
	changes, err := cmd.StdoutPipe()
	require.NoError(in, err)
	require.NoError(in, tied.Start(cmd))
	in.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	go func() {
		for all := json.NewDecoder(changes); ; {
			var slice struct {
				Endpoints []struct {
					Addresses  []string
					Conditions struct{ Ready bool }
				}
			}
			if all.Decode(&slice) != nil {
				return
			}
			var ready []string
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready {
					ready = append(ready, net.JoinHostPort(e.Addresses[0], "7080"))
				}
			}
			in.mu.Lock()
			in.ready = ready
			in.mu.Unlock()
		}
	}()
}

// dial reaches any of them, once.
func (in *installed) dial() (net.Conn, error) {
	in.mu.Lock()
	ready := in.ready
	in.mu.Unlock()
	if len(ready) == 0 {
		return nil, errors.New("nothing is ready")
	}
	return net.Dial("tcp", ready[rand.IntN(len(ready))])
}

// ownerOf makes a token as the chart's notes say.
func (in *installed) ownerOf() *sdk.Client {
	in.Helper()
	secret := in.cluster.Must(in, "", "exec", "--namespace", "prewarm", "deployment/prewarm", "--", "/prewarm", "token", "create", "me", "--user", "me", "--role", "owner")
	client, err := sdk.New("http://"+in.address, strings.TrimSpace(secret))
	require.NoError(in, err)
	client.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // else it may ask twice by itself
	return client
}

func (in *installed) apply(client *sdk.Client) {
	in.Helper()
	_, err := client.Apply(in.Context(), sdk.ApplyRequest{Document: fmt.Sprintf(`
providers:
  - name: cloud
    kind: sim
    config: {root: /shared/cloud}
  - name: cluster
    kind: kubernetes
    config: {namespace: workspaces, agent_image: "prewarm.test/prewarm:1"}
templates:
  - name: rolling
    provider: cloud
    spec: {create_latency: 5ms, delete_latency: 5ms}
    presets: [{name: one, prebuilds: {instances: 8}}]
  - name: dev
    provider: cluster
    agent: {}
    spec:
      pod:
        spec:
          terminationGracePeriodSeconds: 1
          containers: [{name: dev, image: %q, imagePullPolicy: Never, command: [/bin/guest, serve]}]
    presets: [{name: default, prebuilds: {instances: 2}}]
`, k8stest.Guest)})
	require.NoError(in, err)
}

// claimsAPod claims one that the servers have made with their own role, and whose agent has reported to them.
func (in *installed) claimsAPod(client *sdk.Client) {
	in.Helper()
	ctx, cancel := context.WithTimeout(in.Context(), patience)
	defer cancel()
	claim, err := client.Claim(ctx, sdk.ClaimRequest{Template: "dev", Preset: "default", Wait: "100s"})
	if err != nil {
		pods, _ := in.cluster.Kubectl("", "describe", "pods", "--namespace", "workspaces")
		require.NoError(in, err, pods)
	}
	require.NotNil(in, claim.WorkspaceID)
	eventually(in, "the budget of claimed pods knows of it", func() bool {
		out, err := in.cluster.Kubectl("", "get", "poddisruptionbudget", "prewarm-claimed", "--namespace", "workspaces", "-o", "jsonpath={.status.currentHealthy}")
		return err == nil && out == "1"
	})
	_, err = in.cluster.Kubectl(fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": "workspaces"}}`, claim.Name),
		"create", "--raw", "/api/v1/namespaces/workspaces/pods/"+claim.Name+"/eviction", "-f", "-")
	require.ErrorContains(in, err, "disruption budget", "a drain waits for its user")
	_, err = client.ReleaseWorkspace(ctx, claim.WorkspaceID.String())
	require.NoError(in, err)
}

// upgrades rolls to release 2 while clients claim who never ask twice.
func (in *installed) upgrades(client *sdk.Client) {
	in.Helper()
	underClaims(in, client, func() {
		in.release("upgrade", "prewarm", chart, "--reset-then-reuse-values", "--set-string", "image.tag=2")
		in.cluster.Must(in, "", "rollout", "status", "deployment/prewarm", "--namespace", "prewarm", "--timeout", "3m")
		// The old ones have gone too, and not only been counted out.
		in.cluster.Must(in, "", "wait", "--namespace", "prewarm", "--for=delete", "pod", "--selector",
			"app.kubernetes.io/name=prewarm,pod-template-hash!="+in.hash(), "--timeout", "3m")
	})
	images := in.cluster.Must(in, "", "get", "pods", "--namespace", "prewarm", "-o", "jsonpath={.items[*].spec.containers[*].image}")
	require.Equal(in, strings.TrimSpace(strings.Repeat("prewarm.test/prewarm:2 ", 3)), images)
}

// hash is of the pods of the deployment as it is now.
func (in *installed) hash() string {
	in.Helper()
	sets := in.cluster.Must(in, "", "get", "replicasets", "--namespace", "prewarm", "-o",
		`jsonpath={range .items[?(@.spec.replicas>0)]}{.metadata.labels.pod-template-hash}{"\n"}{end}`)
	return strings.TrimSpace(sets)
}

// uninstalls empties the pools and removes the release: what is left is what was there before.
func (in *installed) uninstalls(client *sdk.Client, before []string) {
	in.Helper()
	require.NotEmpty(in, in.cluster.Must(in, "", "get", "pods", "--namespace", "workspaces", "-o", "name"))
	for _, template := range []string{"dev", "rolling"} {
		require.NoError(in, client.DeleteTemplate(in.Context(), template))
	}
	eventually(in, "the pods of pools are gone", func() bool {
		return in.cluster.Must(in, "", "get", "pods", "--namespace", "workspaces", "-o", "name") == ""
	})
	in.release("uninstall", "prewarm")
	in.cluster.Must(in, "", "delete", "persistentvolumeclaim", "shared", "--namespace", "prewarm")
	eventually(in, "what the release had made is gone", func() bool { return slices.Equal(before, in.everything()) })
}

// everything is the names of all objects in the namespaces, of whichever kind, but for events and what comes with a namespace.
func (in *installed) everything() (names []string) {
	in.Helper()
	kinds := strings.Fields(in.cluster.Must(in, "", "api-resources", "--namespaced", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, "events") })
	for _, namespace := range []string{"prewarm", "workspaces"} {
		out := in.cluster.Must(in, "", "get", strings.Join(kinds, ","), "--namespace", namespace, "--ignore-not-found", "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
		names = append(names, strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
