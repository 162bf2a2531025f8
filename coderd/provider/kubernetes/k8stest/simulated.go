package k8stest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kwokConfig has kwok keep up with thousands of pods: it wants all four where it is given one.
const kwokConfig = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {podPlayStageParallelism: 16, nodePlayStageParallelism: 4, nodeLeaseParallelism: 4, podsOnNodeSyncParallelism: 4}
`

// Simulate adds nodes on which no pod really runs: kwok says of each that is bound there that it does. They have the label
// type: simulated, and a taint of that key, so that only pods that tolerate it land there.
func (c *Cluster) Simulate(t testing.TB, nodes int) {
	t.Helper()
	if err := os.WriteFile(c.file("kwok.yaml"), []byte(kwokConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"KUBE_FEATURE_WatchListClient=false", filepath.Join(c.parts, "kwok"), // an etcd before 3.5 cannot stream lists, and it would ask on
		"--kubeconfig=" + c.Kubeconfig, "--config=" + c.file("kwok.yaml"), "--manage-all-nodes=false",
		"--manage-nodes-with-label-selector=type=simulated", "--node-lease-duration-seconds=0",
	}
	for _, of := range []string{"node/fast", "node/heartbeat", "pod/fast"} {
		stages, err := filepath.Glob(filepath.Join(module(t, "sigs.k8s.io/kwok@v0.8.0"), "kustomize/stage", of, "[np]*.yaml"))
		if err != nil || len(stages) == 0 {
			t.Fatalf("kwok has no stages for %s: %v", of, err)
		}
		for _, file := range stages {
			args = append(args, "--config="+file)
		}
	}
	if err := c.run("kwok", 0, "env", args...); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for i := range nodes {
		has := map[string]any{"cpu": "1000", "memory": "4Ti", "pods": "500"}
		list = append(list, map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": fmt.Sprintf("simulated-%d", i), "labels": map[string]string{"type": "simulated"}},
			"spec":     map[string]any{"taints": []map[string]string{{"key": "simulated", "effect": "NoSchedule"}}},
			"status":   map[string]any{"capacity": has, "allocatable": has},
		})
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": list})
	if err != nil {
		t.Fatal(err)
	}
	c.Must(t, string(raw), "create", "-f", "-")
	if err := c.wait(func() error {
		out, err := c.Kubectl("", "get", "node", "--selector", "type=simulated", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`)
		if n := strings.Count(out, "True"); err == nil && n != nodes {
			err = fmt.Errorf("%d of %d nodes are ready", n, nodes)
		}
		return err
	}); err != nil {
		t.Fatalf("%v; the end of kwok's log:\n%s", err, c.Log("kwok"))
	}
}

// module is the folder of a module's version.
func module(t testing.TB, version string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", version)
	cmd.Dir = t.TempDir() // no module
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("download %s: %v: %s", version, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	return found.Dir
}
