package k8stest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	if err := c.run("kwok", 0, filepath.Join(c.parts, "kwok"), "--kubeconfig="+c.Kubeconfig, "--config="+c.file("kwok.yaml"),
		"--manage-all-nodes=false", "--manage-nodes-with-label-selector=type=simulated", "--node-lease-duration-seconds=40",
		"--server-address=127.0.0.1:0"); err != nil {
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
		_, err := c.Kubectl("", "wait", "--for=condition=Ready", "node", "--selector", "type=simulated", "--timeout=100ms")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
