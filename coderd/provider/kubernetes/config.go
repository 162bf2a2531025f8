package kubernetes

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"golang.org/x/xerrors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// Config is a provider's configuration. All of it may be left out where the server runs in the cluster.
type Config struct {
	// Kubeconfig is a file with how to reach the cluster; empty: the server is a pod of it.
	Kubeconfig string `json:"kubeconfig"`
	// Context is one of that file; empty: its current one.
	Context string `json:"context"`
	// Namespace is where pods are made; empty: that of the context, or of the server's own pod.
	Namespace string `json:"namespace"`
	// QPS and Burst bound the requests of this server to the API server; 0: 50 and 100.
	QPS   float32 `json:"qps"`
	Burst int     `json:"burst"`
	// AgentImage is an image with a static prewarm binary at /prewarm, for workspaces with an agent.
	AgentImage string `json:"agent_image"`
	// CallbackHost is the host, or host:port, under which pods reach the server; empty is that of its access URL.
	CallbackHost string `json:"callback_host"`
	// ServiceAccounts are those that a spec may name.
	ServiceAccounts []string `json:"service_accounts"`
	// Secrets are those of the namespace that a spec may use.
	Secrets []string `json:"secrets"`
	// Privileged lets a spec have the node: its network, processes and paths, and privileged containers.
	Privileged bool `json:"privileged"`
}

// ParseConfig reads a configuration. Fields that it does not know are errors.
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	err := specs.Config(raw, &c)
	return c, err
}

// Check says what is wrong with it.
func (c Config) Check() error {
	if err := specs.CheckFile("kubeconfig", c.Kubeconfig); err != nil {
		return err
	}
	if c.Context != "" && c.Kubeconfig == "" {
		return xerrors.New("context: is for a kubeconfig, which is not given")
	}
	if c.Namespace != "" && !provider.ValidName(c.Namespace) {
		return xerrors.Errorf("namespace: %q is not a name of lower-case letters, digits and hyphens", c.Namespace)
	}
	if c.QPS < 0 || c.Burst < 0 {
		return xerrors.New("qps and burst must not be below 0")
	}
	if strings.ContainsAny(c.AgentImage, " \t\n") {
		return xerrors.Errorf("agent_image: %q is not the reference of an image", c.AgentImage)
	}
	return specs.CheckCallbackHost(c.CallbackHost)
}

// ownNamespace is where a pod finds the name of its namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// connection is how to reach the cluster, and the namespace.
func (c Config) connection() (*rest.Config, string, error) {
	var config *rest.Config
	var namespace string
	var err error
	if c.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", xerrors.New("the server does not run in a cluster: set kubeconfig in the provider's configuration")
		}
		if own, readErr := os.ReadFile(ownNamespace); readErr == nil {
			namespace = strings.TrimSpace(string(own))
		}
	} else {
		loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig},
			&clientcmd.ConfigOverrides{CurrentContext: c.Context},
		)
		if config, err = loaded.ClientConfig(); err == nil {
			namespace, _, err = loaded.Namespace()
		}
	}
	if err != nil {
		return nil, "", xerrors.Errorf("read how to reach the cluster: %w", err)
	}
	if c.Namespace != "" {
		namespace = c.Namespace
	}
	if namespace == "" {
		return nil, "", xerrors.New("namespace: is missing")
	}
	config.QPS, config.Burst = 50, 100
	if c.QPS > 0 {
		config.QPS, config.Burst = c.QPS, max(1, int(2*c.QPS))
	}
	if c.Burst > 0 {
		config.Burst = c.Burst
	}
	config.UserAgent = "prewarm"
	return config, namespace, nil
}
