package hosts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// Config is a provider's configuration: the fleet, and how it is reached. No key is in it: a private one is a file of the
// replica's, or in an agent.
type Config struct {
	KeyFile     string `json:"key_file"`     // absolute path of a private key without passphrase
	AgentSocket string `json:"agent_socket"` // absolute path of an ssh-agent's socket, in its place

	User      string `json:"user"`      // where a machine names none
	Port      int    `json:"port"`      // where a machine names none; 22
	Directory string `json:"directory"` // of state and workspace on each machine: absolute, or from the home; .prewarm

	CallbackHost string `json:"callback_host"` // host, or host:port, at which machines reach the server; that of its access URL
	AgentBinary  string `json:"agent_binary"`  // absolute path of the static binary that is copied to machines; this program

	Connections    int            `json:"connections"`     // most that are open at once; 64
	Calls          int            `json:"calls"`           // most that use one connection at once; 4
	ConnectTimeout specs.Duration `json:"connect_timeout"` // 10s
	CallTimeout    specs.Duration `json:"call_timeout"`    // 30s, for one question to one machine
	Keepalive      specs.Duration `json:"keepalive"`       // 15s; a connection that does not answer for as long is closed

	Machines []Host `json:"machines"`
}

// Host is one machine.
type Host struct {
	Name     string   `json:"name"` // its id for ever: what is on it is known by this name
	Address  string   `json:"address"`
	Port     int      `json:"port"`
	User     string   `json:"user"`
	HostKeys []string `json:"host_keys"` // as in known_hosts: "ssh-ed25519 AAAA…"

	AgentBinary string `json:"agent_binary"` // in the place of the provider's, for a machine of another kind

	pinned []ssh.PublicKey
}

const (
	maxMachines    = 10_000
	maxConnections = 10_000
	maxCalls       = 10 // sshd's own MaxSessions, where nobody changed it
)

// ParseConfig reads a configuration, fills in defaults, and looks whether the key is there. It connects to nothing.
func ParseConfig(raw json.RawMessage) (Config, error) {
	c := Config{
		Port: 22, Directory: ".prewarm", Connections: 64, Calls: 4, ConnectTimeout: specs.Duration(10 * time.Second),
		CallTimeout: specs.Duration(30 * time.Second), Keepalive: specs.Duration(15 * time.Second),
	}
	err := specs.Config(raw, &c)
	return c, err
}

var (
	validMachine   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	validUser      = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$`)
	validDirectory = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,200}$`)
	validHost      = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
)

// Check says what is wrong with it.
func (c *Config) Check() error {
	if (c.KeyFile == "") == (c.AgentSocket == "") {
		return xerrors.New("give one of key_file and agent_socket: the private key is read from there at each replica")
	}
	if c.KeyFile != "" {
		if _, err := readKey(c.KeyFile); err != nil {
			return xerrors.Errorf("key_file: %w", err)
		}
	} else if !path.IsAbs(c.AgentSocket) {
		return xerrors.Errorf("agent_socket: %q is not an absolute path", c.AgentSocket)
	}
	if clean := path.Clean(c.Directory); !validDirectory.MatchString(c.Directory) || clean == "." || clean == "/" ||
		strings.HasPrefix(clean, "..") {
		return xerrors.Errorf("directory: %q is not a path of letters, digits and _ . - below the home or the root", c.Directory)
	}
	if err := specs.CheckCallbackHost(c.CallbackHost); err != nil {
		return err
	}
	if err := specs.CheckFile("agent_binary", c.AgentBinary); err != nil {
		return err
	}
	for _, limit := range []struct {
		name     string
		value    int
		from, to int
	}{
		{"port", c.Port, 1, 65535}, {"connections", c.Connections, 1, maxConnections}, {"calls", c.Calls, 1, maxCalls},
	} {
		if limit.value < limit.from || limit.value > limit.to {
			return xerrors.Errorf("%s: %d is not from %d to %d", limit.name, limit.value, limit.from, limit.to)
		}
	}
	return c.checkMachines()
}

func (c *Config) checkMachines() error {
	if len(c.Machines) == 0 || len(c.Machines) > maxMachines {
		return xerrors.Errorf("machines: there are %d: name from 1 to %d", len(c.Machines), maxMachines)
	}
	names, places := map[string]int{}, map[string]string{}
	for i := range c.Machines {
		m := &c.Machines[i]
		at := "machines[" + strconv.Itoa(i) + "]"
		if !validMachine.MatchString(m.Name) {
			return xerrors.Errorf("%s.name: %q is not lower-case letters, digits and . _ - (at most 63)", at, m.Name)
		}
		if first, twice := names[m.Name]; twice {
			return xerrors.Errorf("%s.name: %q is the name of machines[%d] already", at, m.Name, first)
		}
		names[m.Name] = i
		at += " (" + m.Name + ")"
		m.User = cmp.Or(m.User, c.User)
		m.Port = cmp.Or(m.Port, c.Port)
		switch {
		case net.ParseIP(m.Address) == nil && !validHost.MatchString(m.Address):
			return xerrors.Errorf("%s.address: %q is neither an IP address nor a host name; the port is a setting of its own",
				at, m.Address)
		case m.Port < 1 || m.Port > 65535:
			return xerrors.Errorf("%s.port: %d is not from 1 to 65535", at, m.Port)
		case !validUser.MatchString(m.User):
			return xerrors.Errorf("%s.user: %q is no user name: give one here, or for all machines as user", at, m.User)
		}
		place := m.User + "@" + m.place()
		if other, twice := places[place]; twice {
			return xerrors.Errorf("%s: %s is machine %s already: two workspaces would share it", at, place, other)
		}
		places[place] = m.Name
		if err := m.pin(); err != nil {
			return xerrors.Errorf("%s.host_keys: %w", at, err)
		}
		if err := specs.CheckFile(at+".agent_binary", m.AgentBinary); err != nil {
			return err
		}
	}
	return nil
}

// pin reads the host keys.
func (m *Host) pin() error {
	if len(m.HostKeys) == 0 {
		return xerrors.Errorf(`pin at least one: "ssh-keyscan -p %d %s" shows them, on a network that you trust`, m.Port,
			m.Address)
	}
	m.pinned = nil
	for _, line := range m.HostKeys {
		key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(line)))
		if err != nil || len(bytes.TrimSpace(rest)) > 0 {
			shown := line
			if len(shown) > 40 {
				shown = shown[:40] + "…"
			}
			return xerrors.Errorf(`%q is not a public key such as "ssh-ed25519 AAAAC3…"`, shown)
		}
		m.pinned = append(m.pinned, key)
	}
	return nil
}

func (m *Host) place() string { return net.JoinHostPort(m.Address, strconv.Itoa(m.Port)) }

// readKey reads a private key. What it says of a bad one has nothing of the key in it.
func readKey(file string) (ssh.Signer, error) {
	if !path.IsAbs(file) {
		return nil, xerrors.Errorf("%q is not an absolute path", file)
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, xerrors.Errorf("read private key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, xerrors.Errorf("the key in %s has a passphrase: use agent_socket, or a key without one", file)
	case err != nil:
		return nil, xerrors.Errorf("%s holds no private key that can be read", file)
	}
	return signer, nil
}
