package k8stest

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Snapshot keeps what the cluster knows now. The API server does not answer meanwhile.
func (c *Cluster) Snapshot(t testing.TB) {
	t.Helper()
	c.down("etcd")
	err := os.RemoveAll(c.file("snapshot"))
	if err == nil {
		err = os.CopyFS(c.file("snapshot"), os.DirFS(c.file("etcd")))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.again(t, "etcd")
	if err := c.wait(c.serverAnswers); err != nil {
		t.Fatal(err)
	}
}

// Restore has the cluster know what it knew at the last Snapshot, and nothing of what came after, as who puts a backup of etcd back
// does: the control plane stops for that, containers run on, and the kubelet, which has seen what is no longer there, is restarted.
func (c *Cluster) Restore(t testing.TB) {
	t.Helper()
	parts := []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"}
	for _, name := range parts {
		c.down(name)
	}
	err := os.RemoveAll(c.file("etcd"))
	if err == nil {
		err = os.CopyFS(c.file("etcd"), os.DirFS(c.file("snapshot")))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.again(t, parts...)
	c.signal(t, "kubelet", syscall.SIGHUP)
}

// down stops a part.
func (c *Cluster) down(name string) {
	c.processes = slices.DeleteFunc(c.processes, func(p *process) bool {
		if p.name == name {
			p.stop(30 * time.Second)
		}
		return p.name == name
	})
}

// again starts parts in the order in which a cluster starts.
func (c *Cluster) again(t testing.TB, names ...string) {
	t.Helper()
	for _, p := range c.all() {
		if slices.Contains(names, p.name) {
			if err := c.up(p); err != nil {
				t.Fatal(err)
			}
		}
	}
}
