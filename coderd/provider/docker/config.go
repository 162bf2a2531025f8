package docker

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// Config is a provider's configuration. All of it may be left out where an engine listens at the usual place.
type Config struct {
	// Host is where the engine listens: unix:///path, or tcp://host:port with TLS. Empty: see defaultHost.
	Host string `json:"host"`
	TLS  TLS    `json:"tls"`
	// Network is the network of workspaces whose spec names none; empty is the engine's default one.
	Network string `json:"network"`
	// Networks are what a spec may name beside Network and none. "host" only counts if it is here.
	Networks []string `json:"networks"`
	// PublishAddress is the address of the engine's machine at which ports are published; empty: 127.0.0.1.
	PublishAddress string `json:"publish_address"`
	// CallbackHost is the host, or host:port, under which containers reach the server; empty is that of the server's
	// access URL, or the engine's machine (host.docker.internal) where that is a loopback address.
	CallbackHost string `json:"callback_host"`
	// AgentBinary is the static prewarm binary that is copied into workspaces; empty: this program.
	AgentBinary string `json:"agent_binary"`
	// RegistryAuthFile holds credentials of registries, as `docker login` writes them; it is read at each pull.
	RegistryAuthFile string `json:"registry_auth_file"`
	// Prepull are images to be pulled before a template asks for them.
	Prepull []string `json:"prepull"`
	// PullEvery is how old the last pull of an image may be where a spec says `pull: always`; 0: an hour.
	PullEvery specs.Duration `json:"pull_every"`
	// PullTimeout bounds one pull; 0: 30 minutes.
	PullTimeout specs.Duration `json:"pull_timeout"`
	// Binds are directories of the engine's machine that a spec may mount read-only, or what is below them.
	Binds []Bind `json:"binds"`
	// Privileges are the most that a spec may ask for; nil: what the engine gives where it is not asked.
	Privileges *Privileges `json:"privileges"`
	// private are places of the server's own, which no spec may mount.
	private []string
	// Limits are the most that one workspace may ask for, and what it gets where it asks for nothing.
	Limits Limits `json:"limits"`
}

// TLS are files with which an engine behind TCP is spoken to.
type TLS struct {
	CAFile   string `json:"ca_file"`
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
}

// Bind is a directory that may be mounted.
type Bind struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only"` // without effect: no bind can be written any more
}

// Limits of one workspace; zero is none.
type Limits struct {
	CPUs   float64    `json:"cpus"`
	Memory specs.Size `json:"memory"`
	Pids   int64      `json:"pids"`
}

// ParseConfig reads a configuration. Fields that it does not know are errors.
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	err := specs.Config(raw, &c)
	return c, err
}

// Check says what is wrong with it.
func (c Config) Check() error {
	if c.Host != "" {
		u, err := url.Parse(c.Host)
		if err != nil || !slices.Contains([]string{"unix", "tcp"}, u.Scheme) {
			return xerrors.Errorf("host: %q is neither unix:///path/of/socket nor tcp://host:port", c.Host)
		}
	}
	if (c.TLS != TLS{}) && !strings.HasPrefix(c.Host, "tcp://") {
		return xerrors.New("tls: is for a host that begins with tcp://")
	}
	if c.PublishAddress != "" {
		if _, err := netip.ParseAddr(c.PublishAddress); err != nil {
			return xerrors.Errorf("publish_address: %q is not an IP address", c.PublishAddress)
		}
	}
	if err := specs.CheckCallbackHost(c.CallbackHost); err != nil {
		return err
	}
	for name, path := range map[string]string{
		"agent_binary": c.AgentBinary, "registry_auth_file": c.RegistryAuthFile, "tls.ca_file": c.TLS.CAFile,
		"tls.cert_file": c.TLS.CertFile, "tls.key_file": c.TLS.KeyFile,
	} {
		if err := specs.CheckFile(name, path); err != nil {
			return err
		}
	}
	for _, b := range c.Binds {
		if !filepath.IsAbs(b.Path) || filepath.Clean(b.Path) != b.Path {
			return xerrors.Errorf("binds: %q is not an absolute path without dots", b.Path)
		}
	}
	for _, n := range append([]string{c.Network}, c.Networks...) {
		if strings.HasPrefix(n, "container:") {
			return xerrors.Errorf("network: %q: the network of another container cannot be shared", n)
		}
	}
	if c.Privileges != nil {
		for i, name := range c.Privileges.Capabilities {
			c.Privileges.Capabilities[i] = capability(name)
			if !validCapability.MatchString(c.Privileges.Capabilities[i]) {
				return xerrors.Errorf("privileges: %q is not the name of a capability, such as NET_ADMIN", name)
			}
		}
	}
	if c.Limits.CPUs < 0 || c.Limits.Pids < 0 {
		return xerrors.New("limits: must not be below 0")
	}
	return nil
}

// defaultHost is where an engine is looked for: where DOCKER_HOST says, Docker's socket, or Podman's.
func defaultHost(env func(string) string) string {
	if host := env("DOCKER_HOST"); host != "" {
		return host
	}
	const usual = "/var/run/docker.sock"
	for _, path := range []string{usual, filepath.Join(env("XDG_RUNTIME_DIR"), "docker.sock"), "/run/podman/podman.sock"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return "unix://" + path
		}
	}
	return "unix://" + usual
}

// bindable says whether a spec may mount a path of the engine's machine.
func (c Config) bindable(path string) bool {
	return slices.ContainsFunc(c.Binds, func(b Bind) bool { return within(b.Path, path) })
}

// attachable says whether a spec may name a network.
func (c Config) attachable(network string) bool {
	return network == "none" || network == c.Network && network != "" || slices.Contains(c.Networks, network)
}
