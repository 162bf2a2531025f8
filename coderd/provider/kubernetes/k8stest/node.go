package k8stest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// inside is the first process of the node's namespaces: it makes them the node's own, and starts containerd and the kubelet. When
// one of them ends, or it gets SIGTERM, everything does. By SIGHUP there is another kubelet, and containers run on.
const inside = `
mount --make-rprivate / && mount -t proc proc /proc && mkdir -p "$DIR/log" /run/containerd &&
	mount -t tmpfs none /run/containerd && mount -t tmpfs none /var/lib && mount --bind "$DIR/log" /var/log || exit 70
containerd --config "$DIR/containerd.toml" >"$DIR/containerd.log" 2>&1 & runtime=$!
trap 'kill -TERM $kubelet $runtime; exit 0' TERM
n=0
while ! ctr --address "$DIR/containerd.sock" version >/dev/null 2>&1; do
	n=$((n+1)); [ $n -lt 600 ] || exit 71
	sleep 0.1
done
trap 'again=1; kill -TERM $kubelet' HUP
again=1
while [ "$again" ]; do
	again=
	"$@" & kubelet=$!
	wait $kubelet
	wait $kubelet
done`

const containerdConfig = `version = 2
root = "DIR/containerd"
state = "DIR/containerd-state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "DIR/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "prewarm.test/pause:1"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "CNI"
    conf_dir = "DIR/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`

const network = `{"cniVersion": "0.4.0", "name": "k8stest", "plugins": [{"type": "bridge", "bridge": "BRIDGE", "isGateway": true, "ipMasq": false,
	"ipam": {"type": "host-local", "dataDir": "DIR/addresses", "ranges": [[{"subnet": "10.213.0.0/20"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: PORT
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: DIR/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: DIR/node.crt
tlsPrivateKeyFile: DIR/node.key
containerRuntimeEndpoint: unix://DIR/containerd.sock
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /GROUP
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
failSwapOn: false
volumePluginDir: DIR/plugins
maxPods: 200
evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
`

func (c *Cluster) startNode() error {
	c.rememberKernel()
	if err := c.makeGroups(); err != nil {
		return err
	}
	if err := makeBridge(); err != nil {
		return err
	}
	fill := strings.NewReplacer("DIR", c.Dir, "CNI", plugins(), "BRIDGE", bridge, "GROUP", c.group(), "PORT", fmt.Sprint(c.ports["kubelet"]))
	if err := os.Mkdir(c.file("cni"), 0o700); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"containerd.toml": containerdConfig, "cni/10-k8stest.conflist": network, "kubelet.yaml": kubeletConfig,
	} {
		if err := os.WriteFile(c.file(name), []byte(fill.Replace(content)), 0o600); err != nil {
			return err
		}
	}
	return c.run("kubelet", namespaces, "/bin/sh", "-c", inside, "sh", filepath.Join(c.parts, "kubelet"), "--config="+c.file("kubelet.yaml"),
		"--kubeconfig="+c.file("node.kubeconfig"), "--hostname-override=localhost", "--root-dir="+c.file("kubelet"))
}

// makeBridge makes the bridge of the pods' network, before the first pod would: servers listen at its address.
func makeBridge() error {
	_ = exec.Command("ip", "link", "delete", bridge).Run() // of a test that was killed
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", Gateway + "/20", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("make bridge: ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// group is the name of the parent of all groups of the pods' processes.
func (c *Cluster) group() string { return filepath.Base(c.Dir) }

// makeGroups makes the parent in every hierarchy. A kubelet expects it, and a group of processors must have some before
// anything can be in it.
func (c *Cluster) makeGroups() error {
	hierarchies, _ := filepath.Glob("/sys/fs/cgroup/*/tasks")
	for _, tasks := range hierarchies {
		parent := filepath.Dir(tasks)
		group := filepath.Join(parent, c.group())
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("make group: %w", err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil {
				continue // of another hierarchy
			}
			if err := os.WriteFile(filepath.Join(group, file), content, 0o600); err != nil {
				return fmt.Errorf("make group: %w", err)
			}
		}
	}
	return nil
}

// settings are what a kubelet and the network of pods change of the kernel.
var settings = []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"}

func (c *Cluster) rememberKernel() {
	c.kernel = map[string][]byte{}
	for _, name := range settings {
		file := filepath.Join("/proc/sys", name)
		if content, err := os.ReadFile(file); err == nil {
			c.kernel[file] = content
		}
	}
}

// putBack leaves the machine as it was.
func (c *Cluster) putBack() {
	if c.kernel == nil {
		return // there was no node
	}
	for file, before := range c.kernel {
		if now, err := os.ReadFile(file); err == nil && string(now) != string(before) {
			_ = os.WriteFile(file, before, 0o600)
		}
	}
	_ = exec.Command("ip", "link", "delete", bridge).Run()
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + c.group())
	for _, root := range append(roots, filepath.Join("/sys/fs/cgroup", c.group())) {
		var groups []string
		_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for i := len(groups) - 1; i >= 0; i-- {
			_ = os.Remove(groups[i])
		}
	}
}
