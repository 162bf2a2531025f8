package k8stest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// needs says everything that the machine lacks for a cluster, each with what to do about it; nil: nothing.
func (c *Cluster) needs() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can run a kubelet and its containers: run it as root")
	}
	var lacks []string
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "kwok"} {
		if _, err := os.Stat(filepath.Join(c.parts, name)); err != nil {
			lacks = append(lacks, fmt.Sprintf("%s is not in %s: run make k8s-binaries", name, c.parts))
		}
	}
	for command, from := range map[string]string{
		"etcd": "etcd-server", "containerd": "containerd", "ctr": "containerd", "runc": "runc", "busybox": "busybox-static", "ip": "iproute2",
		"mount": "mount",
	} {
		if _, err := exec.LookPath(command); err != nil {
			lacks = append(lacks, fmt.Sprintf("the command %s is missing: apt-get install %s", command, from))
		}
	}
	if plugins() == "" {
		lacks = append(lacks, "no network plugins in /usr/lib/cni or /opt/cni/bin: apt-get install containernetworking-plugins")
	}
	if len(lacks) == 0 {
		lacks = c.kernelLacks()
	}
	if len(lacks) > 0 {
		return fmt.Errorf("this machine cannot run a cluster:\n  %s", strings.Join(lacks, "\n  "))
	}
	return nil
}

// kernelLacks tries what the node will do, and names what the kernel refuses.
func (c *Cluster) kernelLacks() (lacks []string) {
	own := "mount --make-rprivate / && mkdir -p lower upper work merged && "
	for _, try := range []struct{ what, script string }{
		{"namespaces of processes and mounts (CONFIG_PID_NS, CAP_SYS_ADMIN)", "mount --make-rprivate / && mount -t proc proc /proc"},
		{"tmpfs", own + "mount -t tmpfs none merged"},
		{"overlayfs (CONFIG_OVERLAY_FS)", own + "mount -t tmpfs none merged && cd merged && " +
			"mkdir l u w m && mount -t overlay -o lowerdir=l,upperdir=u,workdir=w none m"},
		{"a bridge (CONFIG_BRIDGE, CAP_NET_ADMIN)", "ip link add pwk8stry type bridge; s=$?; ip link delete pwk8stry; exit $s"},
		{"pairs of network devices (CONFIG_VETH)", "ip link add pwk8stry type veth peer name pwk8stry2; s=$?; ip link delete pwk8stry; exit $s"},
		{"network namespaces (CONFIG_NET_NS)", "ip netns add pwk8stry; s=$?; ip netns delete pwk8stry; exit $s"},
	} {
		cmd := exec.Command("/bin/sh", "-c", try.script)
		cmd.Dir = c.Dir
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
		if out, err := cmd.CombinedOutput(); err != nil {
			lacks = append(lacks, fmt.Sprintf("the kernel, or the container that this runs in, refuses %s: %v: %s", try.what, err, strings.TrimSpace(string(out))))
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return lacks // version 2, of which a kubelet says itself what is missing
	}
	for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
		if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", name, "tasks")); err != nil {
			lacks = append(lacks, fmt.Sprintf("the control group %s is not mounted at /sys/fs/cgroup/%s", name, name))
		}
	}
	return lacks
}

// plugins is the folder of the network plugins; empty: there is none.
func plugins() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir
		}
	}
	return ""
}

// lock waits until no other process has a cluster: they would share the bridge and its addresses, and few machines have room
// for two.
func (c *Cluster) lock() error {
	file, err := os.OpenFile(filepath.Join(c.parts, "cluster.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("take lock: %w", err)
	}
	c.locked = file // until it is closed, or this process ends
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "k8stest: waiting for the cluster of another test")
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("take lock %s: %w", file.Name(), err)
	}
	return nil
}
