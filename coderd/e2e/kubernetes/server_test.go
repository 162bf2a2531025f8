package kubernetes_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

var (
	importOnce sync.Once
	imported   error
)

// hasServerImage makes the image of the binary, once for all tests.
func (p *place) hasServerImage() {
	p.t.Helper()
	importOnce.Do(func() { imported = p.cluster.ImportServer(e2etest.Binary(p.t)) })
	require.NoError(p.t, imported)
}

// serverOf starts a server that pods reach, on a database.
func (p *place) serverOf(url string, args ...string) *e2etest.Server {
	p.t.Helper()
	listener, err := net.Listen("tcp", k8stest.Gateway+":0")
	require.NoError(p.t, err)
	address := listener.Addr().String()
	require.NoError(p.t, listener.Close())
	return e2etest.Start(p.t, e2etest.Options{
		PostgresURL: url, Listen: address, Tick: 300 * time.Millisecond,
		Args: append([]string{"--access-url", "http://" + address, "--log-level", "debug"}, args...),
	})
}

// document is a file with one provider of the place, and templates.
func (p *place) document(kubeconfig, templates string, settings ...string) string {
	return fmt.Sprintf("providers:\n  - name: cluster\n    kind: kubernetes\n    config: {kubeconfig: %q, agent_image: %q}\n%s%s",
		kubeconfig, k8stest.Server, strings.Join(settings, ""), templates)
}

func apply(t *testing.T, c *sdk.Client, document string) {
	t.Helper()
	_, err := c.Apply(t.Context(), sdk.ApplyRequest{Document: document, File: "test.yaml"})
	require.NoError(t, err)
}

// plain is a pool of pods without an agent.
const plain = `
templates:
  - name: plain
    provider: cluster
    boot_timeout: 5m
    spec:
      pod:
        spec:
          terminationGracePeriodSeconds: 5
          containers: [{name: dev, image: "` + k8stest.Guest + `", imagePullPolicy: Never, command: [/bin/guest, serve]}]
    presets: [{name: default, prebuilds: {instances: %d}}]
`

// withAgent is a pool of pods whose agent is the real one.
const withAgent = `
templates:
  - name: pods
    provider: cluster
    boot_timeout: 5m
    agent: {on_claim: [sh, -c, 'echo "$PREWARM_OWNER $PARAM_KEY" > /tmp/claimed']}
    spec:
      pod:
        spec:
          terminationGracePeriodSeconds: 5
          containers: [{name: dev, image: "` + k8stest.Guest + `", imagePullPolicy: Never, command: [/bin/guest, listen, "8080"]}]
    presets: [{name: default, parameters: {region: north}, prebuilds: {instances: 2}}]
`

// eventually polls until ok, and fails the test after a time that only a hang exceeds.
func (p *place) eventually(what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(p.t, what, "%s", p.kubectl("get", "pods", "-o", "wide", "--show-labels"))
		}
	}
}

func named(t *testing.T, c *sdk.Client, state string) (names []string) {
	t.Helper()
	list, err := c.Workspaces(t.Context(), sdk.WorkspaceFilter{State: state})
	require.NoError(t, err)
	for _, w := range list.Workspaces {
		names = append(names, w.Name)
	}
	return names
}

// pods are the names of all pods of the namespace that are not on the way out.
func (p *place) pods() (names []string) {
	p.t.Helper()
	out := p.kubectl("get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) == 1 {
			names = append(names, words[0])
		}
	}
	return names
}

// isFull waits until the pool has so many ready ones, which are pods, and there is no other pod but those given.
func (p *place) isFull(c *sdk.Client, n int, beside ...string) (ready []string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d are ready, and are all pods", n), func() bool {
		ready = named(p.t, c, "ready")
		return len(ready) == n && sameNames(p.pods(), append(beside[:len(beside):len(beside)], ready...))
	})
	return ready
}

func sameNames(a, b []string) bool {
	count := map[string]int{}
	for _, name := range a {
		count[name]++
	}
	for _, name := range b {
		count[name]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// The whole way with real processes: two servers on one PostgreSQL fill a pool with pods, whose agent is the real binary. A
// claim over HTTP, then commands, files, a port and SSH through the tunnel, by the server that has it and by the other. A release,
// after which the pool is full again; and the end of the template, after which nothing is left.
func TestServer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.hasServerImage()
	url := dbtest.URL(t)
	one, other := p.serverOf(url), p.serverOf(url)
	apply(t, one.Client, p.document(p.config.Kubeconfig, withAgent))
	p.isFull(one.Client, 2)

	ctx := t.Context()
	claim, err := other.Client.Claim(ctx, sdk.ClaimRequest{
		Template: "pods", Preset: "default", Mode: "require", WaitReady: "2m", Parameters: map[string]string{"key": "late"},
	})
	require.NoError(t, err)
	require.Equal(t, "hit", claim.Outcome)
	for _, s := range []*e2etest.Server{one, other} {
		as := []string{"PREWARM_URL=" + s.URL, "PREWARM_TOKEN=" + s.Client.Token}
		shown := e2etest.Run(ctx, t, as, "workspace", "exec", claim.Name, "--", "sh", "-c", "cat /tmp/claimed; echo $PARAM_REGION; exit 5")
		require.Equal(t, "owner late\nnorth\n", shown.Stdout, shown.Stderr)
		require.Equal(t, 5, shown.Status)
		shown = e2etest.Run(ctx, t, as, "ssh", claim.Name, "--", "echo $PREWARM_WORKSPACE")
		require.Equal(t, claim.Name+"\n", shown.Stdout, shown.Stderr)

		content := strings.Repeat("to and fro\n", 100_000)
		_, err = s.Client.WriteFile(ctx, claim.Name, "/tmp/file", strings.NewReader(content), sdk.FileWrite{Size: int64(len(content))})
		require.NoError(t, err)
		back, _, err := s.Client.ReadFile(ctx, claim.Name, "/tmp/file")
		require.NoError(t, err)
		read, err := io.ReadAll(back)
		require.NoError(t, err)
		require.True(t, bytes.Equal([]byte(content), read))
		_ = back.Close()

		stream, err := s.Client.DialPort(ctx, claim.Name, 8080)
		require.NoError(t, err)
		_, err = stream.Write([]byte("echo"))
		require.NoError(t, err)
		answer := make([]byte, 4)
		_, err = io.ReadFull(stream, answer)
		require.NoError(t, err)
		require.Equal(t, "echo", string(answer))
		_ = stream.Close()
	}
	p.isFull(one.Client, 2, claim.Name)

	_, err = one.Client.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	require.NotContains(t, p.isFull(one.Client, 2), claim.Name)
	require.NoError(t, one.Client.DeleteTemplate(ctx, "pods"))
	p.eventually("nothing is left", func() bool { return p.kubectl("get", "pods,secrets", "-o", "name") == "" })
}

// Two installations share a namespace, and neither touches what is the other's.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, other := p.serverOf(dbtest.URL(t)), p.serverOf(dbtest.URL(t))
	apply(t, one.Client, p.document(p.config.Kubeconfig, fmt.Sprintf(plain, 2)))
	apply(t, other.Client, p.document(p.config.Kubeconfig, fmt.Sprintf(plain, 1)))
	var mine, theirs []string
	p.eventually("both pools are full", func() bool {
		mine, theirs = named(t, one.Client, "ready"), named(t, other.Client, "ready")
		return len(mine) == 2 && len(theirs) == 1 && sameNames(p.pods(), append(mine[:2:2], theirs...))
	})
	for c, own := range map[*sdk.Client]int{one.Client: 2, other.Client: 1} {
		inventories, err := c.Inventories(t.Context(), "cluster")
		require.NoError(t, err)
		require.Len(t, inventories, 1)
		require.Equal(t, map[string]int{"ok": own}, inventories[0].Counts)
	}
	require.NoError(t, one.Client.DeleteTemplate(t.Context(), "plain"))
	p.eventually("only the other's pod is left", func() bool { return sameNames(p.pods(), theirs) })
	require.Equal(t, theirs, named(t, other.Client, "ready"))
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The samples of the documentation can be applied: files to a server, whose pools become warm, and manifests to the cluster.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, p.cluster.Tag(k8stest.Guest, "docker.io/library/debian:12"))
	page, err := os.ReadFile("../../../docs/providers/kubernetes.md")
	require.NoError(t, err)
	server := p.serverOf(dbtest.URL(t))
	here := strings.NewReplacer("/etc/prewarm/kubeconfig", p.config.Kubeconfig, "namespace: workspaces", "namespace: "+p.namespace,
		"storageClassName: standard", "storageClassName: "+k8stest.Storage, "storage: 10Gi", "storage: 1Mi")
	pools := 0
	for _, block := range yamlBlock.FindAllStringSubmatch(string(page), -1) {
		switch first, _, _ := strings.Cut(block[1], ":"); first {
		case "providers":
			apply(t, server.Client, here.Replace(block[1]))
			pools++
		case "apiVersion":
			p.cluster.Must(t, here.Replace(block[1]), "apply", "--namespace", p.namespace, "-f", "-")
		default:
			require.Failf(t, "a YAML block that this test does not know", "%s", block[1])
		}
	}
	require.Positive(t, pools)
	p.isFull(server.Client, 3)
	require.NoError(t, server.Client.DeleteTemplate(t.Context(), "pods"))
	p.eventually("nothing is left", func() bool { return len(p.pods()) == 0 })
}
