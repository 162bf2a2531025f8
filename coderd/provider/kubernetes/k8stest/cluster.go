package k8stest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// FolderVariable names where scripts/k8s.sh has put the parts of a cluster.
	FolderVariable = "PREWARM_KUBERNETES"
	// startTimeout is how long a part may take to be there before it counts as a hang.
	startTimeout = 2 * time.Minute
	folderPrefix = "prewarm-k8s-"
	bridge       = "pwk8s0"
)

// Gateway is the address by which pods reach this machine, and which a server for them listens at.
const Gateway = "10.213.0.1"

// Cluster is a real cluster of one node.
type Cluster struct {
	Dir        string // of everything that it writes
	Kubeconfig string // of an administrator

	parts     string // where the binaries are
	server    string // address of the API server
	ports     map[string]int
	processes []*process
	kernel    map[string][]byte // settings before, by their files
	locked    *os.File
}

// New starts a cluster in a new folder, and returns when its node is ready. The caller calls Remove.
func New() (*Cluster, error) {
	parts := os.Getenv(FolderVariable)
	if parts == "" {
		return nil, fmt.Errorf("start cluster: %s is not set: run make k8s-e2e", FolderVariable)
	}
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "admin.kubeconfig"), parts: parts, ports: map[string]int{}}
	err = c.needs()
	if err == nil {
		err = c.lock()
	}
	if err == nil {
		err = c.start()
	}
	if err != nil {
		c.Remove()
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) start() error {
	for _, name := range []string{"etcd", "peers", "server", "kubelet"} {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.ports[name] = port
	}
	c.server = fmt.Sprintf("https://127.0.0.1:%d", c.ports["server"])
	if err := c.certificates(); err != nil {
		return err
	}
	for _, p := range c.all() {
		if err := c.up(p); err != nil {
			return err
		}
	}
	return nil
}

// part is one of what a cluster is made of, in order.
type part struct {
	name  string
	start func() error
	there func() error // nil: nobody waits for it
}

func (c *Cluster) all() []part {
	return []part{
		{"etcd", c.startEtcd, c.etcdAnswers},
		{"kube-apiserver", c.startServer, c.serverAnswers},
		{"kube-controller-manager", c.startControllers, nil},
		{"kube-scheduler", c.startScheduler, nil},
		{"kubelet", c.startNode, c.nodeReady},
		{"images", c.importImages, c.accountsAreThere},
		{"storage", c.makeStorage, nil},
	}
}

// up starts a part, and waits until it is there.
func (c *Cluster) up(p part) error {
	begun := time.Now()
	if err := p.start(); err != nil {
		return err
	}
	if p.there != nil {
		if err := c.wait(p.there); err != nil {
			return fmt.Errorf("%s: %w; the end of its log:\n%s", p.name, err, c.Log(p.name))
		}
	}
	fmt.Fprintf(os.Stderr, "k8stest: %s after %s\n", p.name, time.Since(begun).Round(10*time.Millisecond))
	return nil
}

// wait polls until something is there, or a part has ended.
func (c *Cluster) wait(there func() error) error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		err := there()
		if err == nil {
			return nil
		}
		if ended := c.ended(); ended != nil {
			return ended
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not there after %s: %w", startTimeout, err)
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (c *Cluster) certificates() error {
	a, err := newAuthority(c.Dir)
	if err != nil {
		return err
	}
	for _, who := range [][]string{
		{"admin", "admin", "system:masters"},
		{"server", "kube-apiserver", "system:masters"}, // it speaks to the kubelet with it too
		{"controllers", "system:kube-controller-manager"},
		{"scheduler", "system:kube-scheduler"},
		{"node", "system:node:localhost", "system:nodes"},
		{"prewarm", "prewarm"},
	} {
		if err := a.client(who[0], who[1], who[2:]...); err != nil {
			return err
		}
		if err := os.WriteFile(c.file(who[0]+".kubeconfig"), c.kubeconfig(who[0], "default"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig is how a user reaches the API server.
func (c *Cluster) kubeconfig(user, namespace string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: test, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: %q}}]
current-context: test
`, c.server, c.file("ca.crt"), c.file(user+".crt"), c.file(user+".key"), namespace)
}

func (c *Cluster) file(name string) string { return filepath.Join(c.Dir, name) }

func (c *Cluster) startEtcd() error {
	clients, peers := fmt.Sprintf("http://127.0.0.1:%d", c.ports["etcd"]), fmt.Sprintf("http://127.0.0.1:%d", c.ports["peers"])
	return c.run("etcd", 0, "etcd", "--data-dir", c.file("etcd"), "--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync")
}

func (c *Cluster) etcdAnswers() error {
	return answers(http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/health", c.ports["etcd"]))
}

// audit writes down each request of Prewarm's, once it is answered.
const audit = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - {level: Metadata, users: [prewarm]}
  - {level: None}
`

func (c *Cluster) startServer() error {
	if err := os.WriteFile(c.file("audit.yaml"), []byte(audit), 0o600); err != nil {
		return err
	}
	return c.run("kube-apiserver", 0, filepath.Join(c.parts, "kube-apiserver"),
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", c.ports["etcd"]), fmt.Sprintf("--secure-port=%d", c.ports["server"]),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir="+c.file("serving"),
		"--authorization-mode=Node,RBAC", "--allow-privileged", "--service-cluster-ip-range=10.96.0.0/16",
		"--client-ca-file="+c.file("ca.crt"), "--tls-cert-file="+c.file("server.crt"), "--tls-private-key-file="+c.file("server.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.file("accounts.key"),
		"--service-account-signing-key-file="+c.file("accounts.key"),
		"--kubelet-certificate-authority="+c.file("ca.crt"), "--kubelet-client-certificate="+c.file("server.crt"),
		"--kubelet-client-key="+c.file("server.key"), "--kubelet-preferred-address-types=Hostname,InternalIP",
		"--audit-policy-file="+c.file("audit.yaml"), "--audit-log-path="+c.AuditLog(), "--audit-log-mode=blocking")
}

// AuditLog is the file in which each request of Prewarm's is, as a line of JSON.
func (c *Cluster) AuditLog() string { return c.file("audit.log") }

func (c *Cluster) serverAnswers() error {
	pair, err := tls.LoadX509KeyPair(c.file("admin.crt"), c.file("admin.key"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(c.file("ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, DisableKeepAlives: true,
	}}
	return answers(client, c.server+"/readyz")
}

func answers(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

func (c *Cluster) startControllers() error {
	return c.run("kube-controller-manager", 0, filepath.Join(c.parts, "kube-controller-manager"),
		"--kubeconfig="+c.file("controllers.kubeconfig"), "--leader-elect=false", "--secure-port=0", "--root-ca-file="+c.file("ca.crt"),
		"--service-account-private-key-file="+c.file("accounts.key"), "--use-service-account-credentials", "--enable-hostpath-provisioner")
}

func (c *Cluster) startScheduler() error {
	return c.run("kube-scheduler", 0, filepath.Join(c.parts, "kube-scheduler"), "--kubeconfig="+c.file("scheduler.kubeconfig"),
		"--leader-elect=false", "--secure-port=0")
}

// Storage is the class of volumes that the cluster makes and removes by itself, in /tmp of this machine.
const Storage = "folders"

func (c *Cluster) makeStorage() error {
	_, err := c.Kubectl(`{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "`+Storage+`"},
		"provisioner": "kubernetes.io/host-path", "reclaimPolicy": "Delete"}`, "create", "-f", "-")
	return err
}

// accountsAreThere waits for what admission wants of a namespace before it takes a pod.
func (c *Cluster) accountsAreThere() error {
	_, err := c.Kubectl("", "get", "serviceaccount", "default", "-n", "default")
	return err
}

func (c *Cluster) nodeReady() error {
	out, err := c.Kubectl("", "get", "node", "localhost", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}{.spec.taints}`)
	if err == nil && strings.TrimSpace(out) != "True" { // a taint is taken off a little later
		err = fmt.Errorf("node is ready: %q", out)
	}
	return err
}

// Kubectl runs kubectl as the administrator, with something to read, and returns what it writes.
func (c *Cluster) Kubectl(stdin string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(c.parts, "kubectl"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+c.Dir)
	cmd.Stdin = strings.NewReader(stdin)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return out.String(), nil
}

// Must is Kubectl for tests.
func (c *Cluster) Must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Namespace makes a namespace in which Prewarm's user has the given role, and returns a kubeconfig of that user for it. It goes
// with the test.
func (c *Cluster) Namespace(t testing.TB, role string, labels ...string) (name, kubeconfig string) {
	t.Helper()
	name = fmt.Sprintf("test-%08x", rand.Uint32())
	c.Must(t, "", "create", "namespace", name)
	t.Cleanup(func() { _, _ = c.Kubectl("", "delete", "namespace", name, "--wait=false") })
	for _, label := range labels {
		c.Must(t, "", "label", "namespace", name, label)
	}
	c.Must(t, role, "apply", "-n", name, "-f", "-")
	c.Must(t, "", "create", "rolebinding", "prewarm", "-n", name, "--role=prewarm", "--user=prewarm")
	if err := c.wait(func() error {
		_, err := c.Kubectl("", "get", "serviceaccount", "default", "-n", name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, c.kubeconfig("prewarm", name), 0o600); err != nil {
		t.Fatal(err)
	}
	return name, kubeconfig
}

// Remove ends the cluster and removes everything of it.
func (c *Cluster) Remove() {
	for i := len(c.processes) - 1; i >= 0; i-- { // the node first
		c.processes[i].stop(10 * time.Second)
	}
	c.putBack()
	_ = os.RemoveAll(c.Dir)
	if c.locked != nil {
		_ = c.locked.Close()
	}
}

const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
