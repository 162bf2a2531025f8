package docker

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// What a container may do as its root is a set of capabilities.
var (
	// engineCapabilities are those that an engine gives where it is not asked.
	engineCapabilities = []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
		"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
	// ownCapabilities are about the container's own files, users and ports, and all that most images need.
	ownCapabilities = []string{
		"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID",
	}
)

// validCapability leaves out ALL, which nobody means.
var validCapability = regexp.MustCompile(`^(BPF|[A-Z][A-Z_]{3,})$`)

// Privileges are what a container has beside its own capabilities. In a configuration it is the most that a spec may ask
// for.
type Privileges struct {
	Capabilities []string `json:"capabilities"`
	// NewPrivileges lets programs such as sudo have more rights than who calls them.
	NewPrivileges bool `json:"new_privileges"`
}

// permitted is the most that a spec may ask for: what an engine gives anyway, where the configuration does not say.
func (c Config) permitted() Privileges {
	if c.Privileges == nil {
		return Privileges{Capabilities: engineCapabilities, NewPrivileges: true}
	}
	return *c.Privileges
}

func (p *reader) privileges(path string, raw json.RawMessage) *Privileges {
	asked, most := &Privileges{}, p.config.permitted()
	p.Mapping(path, raw, specs.Fields{
		"capabilities": func(path string, raw json.RawMessage) {
			asked.Capabilities = specs.List(&p.Reader, path, raw, func(path string, item json.RawMessage) string {
				name := capability(p.NonEmpty(path, item))
				if !p.Has(path) && !slices.Contains(most.Capabilities, name) && !slices.Contains(ownCapabilities, name) {
					p.Add(path, "%q is not one of the capabilities that `privileges` of the provider's configuration permits", name)
				}
				return name
			})
		},
		"new_privileges": func(path string, raw json.RawMessage) {
			asked.NewPrivileges = p.Boolean(path, raw)
			if asked.NewPrivileges && !most.NewPrivileges {
				p.Add(path, "is not permitted by `privileges` of the provider's configuration")
			}
		},
	})
	return asked
}

// capability is a name as engines have it, who take it with a prefix and in small letters too.
func capability(name string) string { return strings.TrimPrefix(strings.ToUpper(name), "CAP_") }

// confine takes from a container what it does not need.
func (p *Privileges) confine(host *container.HostConfig) {
	host.CapDrop = []string{"ALL"}
	host.CapAdd = slices.Compact(slices.Sorted(slices.Values(slices.Concat(ownCapabilities, p.Capabilities))))
	if !p.NewPrivileges {
		host.SecurityOpt = append(host.SecurityOpt, "no-new-privileges")
	}
}
