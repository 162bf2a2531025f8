package docker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/network"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

const (
	defaultStopGrace = 2 * time.Second
	maxStopGrace     = time.Minute
	// defaultPids keeps one workspace from using up the machine's processes.
	defaultPids = 4096
)

// Policies of pulling.
const (
	pullMissing = "missing"
	pullNever   = "never"
	pullAlways  = "always"
)

// spec is what a template's spec says, checked, with what the configuration says where it says nothing.
type spec struct {
	image       string
	entrypoint  []string // nil: the image's
	command     []string // nil: the image's, where the entrypoint is too
	environment map[string]string
	workingDir  string
	user        string
	ports       []network.Port
	networks    []string
	volumes     []volume
	cpus        float64 // 0: no limit, as for the next two
	memory      int64   // bytes
	pids        int64
	pull        string
	health      *health
	readiness   readiness
	stopGrace   time.Duration // between SIGTERM and SIGKILL, in whole seconds
	init        bool
	privileges  *Privileges // nil: not said
}

// volume is a place of a container that is not of its image. With none of bind, name and tmpfs it is an anonymous volume.
type volume struct {
	path     string
	bind     string // path of the engine's machine, to be read
	name     string // of a volume that the workspaces of the template share
	tmpfs    int64  // bytes
	readOnly bool
}

// health is a check that the engine makes itself.
type health struct {
	command                        []string
	interval, timeout, startPeriod time.Duration
	retries                        int
}

// readiness is the condition, beside that the container runs. At most one of these is set.
type readiness struct {
	Healthy bool     `json:"healthy,omitempty"`
	TCP     uint16   `json:"tcp,omitempty"` // port of the container that takes connections
	Command []string `json:"command,omitempty"`
}

func (r readiness) String() string {
	raw, _ := json.Marshal(r) // of words and numbers, which cannot fail
	return string(raw)
}

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(c Config, raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	p := &reader{config: c}
	s := spec{
		pull: pullMissing, stopGrace: defaultStopGrace, pids: defaultPids, cpus: c.Limits.CPUs, memory: int64(c.Limits.Memory),
	}
	if c.Limits.Pids > 0 {
		s.pids = c.Limits.Pids
	}
	p.Mapping("", raw, specs.Fields{
		"image":       specs.To(&s.image, p.image),
		"command":     specs.To(&s.command, p.Command),
		"entrypoint":  specs.To(&s.entrypoint, p.Command),
		"environment": specs.To(&s.environment, p.Environment),
		"working_dir": specs.To(&s.workingDir, p.Path),
		"user":        specs.To(&s.user, p.NonEmpty),
		"ports":       specs.To(&s.ports, p.ports),
		"networks":    specs.To(&s.networks, p.networks),
		"volumes":     specs.To(&s.volumes, p.volumes),
		"cpus":        specs.To(&s.cpus, p.cpus),
		"memory":      specs.To(&s.memory, p.memory),
		"pids":        specs.To(&s.pids, p.pids),
		"pull":        specs.To(&s.pull, p.policy),
		"health":      specs.To(&s.health, p.health),
		"readiness":   specs.To(&s.readiness, p.readiness),
		"stop_grace":  specs.To(&s.stopGrace, p.grace),
		"init":        specs.To(&s.init, p.Boolean),
		"privileges":  specs.To(&s.privileges, p.privileges),
	})
	if s.image == "" && !p.Has("image") {
		p.Add("image", "is missing: give the reference of an image, such as debian:12")
	}
	if len(s.networks) == 0 && c.Network != "" {
		s.networks = []string{c.Network}
	}
	if len(s.ports) > 0 && (slices.Contains(s.networks, "none") || slices.Contains(s.networks, "host")) {
		p.Add("ports", "need a network of the container's own: it is %s", strings.Join(s.networks, ", "))
	}
	p.Parameters(parameters)
	return s, p.Problems
}

type reader struct {
	specs.Reader
	config Config
}

func (p *reader) size(path string, raw json.RawMessage) int64 {
	n, ok := specs.ParseSize(raw)
	if !ok {
		p.Add(path, "must be a size such as 512m or 2g")
	}
	return n
}

func (p *reader) policy(path string, raw json.RawMessage) string {
	policy := p.NonEmpty(path, raw)
	if !slices.Contains([]string{pullMissing, pullNever, pullAlways}, policy) && !p.Has(path) {
		p.Add(path, "must be missing, never or always")
	}
	return policy
}

func (p *reader) grace(path string, raw json.RawMessage) time.Duration {
	grace := p.Span(0, maxStopGrace)(path, raw)
	if grace%time.Second != 0 {
		p.Add(path, "must be of whole seconds")
	}
	return grace
}

func (p *reader) image(path string, raw json.RawMessage) string {
	s := p.NonEmpty(path, raw)
	if p.Has(path) {
		return ""
	}
	if _, err := reference.ParseDockerRef(s); err != nil {
		p.Add(path, "%q is not the reference of an image, such as debian:12: %s", s, err)
	}
	return s
}

func (p *reader) ports(path string, raw json.RawMessage) []network.Port {
	ports := specs.List(&p.Reader, path, raw, func(path string, item json.RawMessage) network.Port {
		var n uint16
		var s string
		if json.Unmarshal(item, &n) == nil {
			s = fmt.Sprint(n)
		} else {
			_ = json.Unmarshal(item, &s)
		}
		port, err := network.ParsePort(s)
		if err != nil || port.Num() == 0 || !slices.Contains([]network.IPProtocol{network.TCP, network.UDP}, port.Proto()) {
			p.Add(path, `must be a port from 1 to 65535, such as 8080 or "53/udp"`)
			return network.Port{}
		}
		return port
	})
	return slices.DeleteFunc(ports, network.Port.IsZero)
}

func (p *reader) networks(path string, raw json.RawMessage) []string {
	names := specs.List(&p.Reader, path, raw, func(path string, item json.RawMessage) string {
		name := p.NonEmpty(path, item)
		if !p.Has(path) && !p.config.attachable(name) {
			p.Add(path, "%q is not one of the networks that the provider's configuration allows", name)
		}
		return name
	})
	if alone := slices.ContainsFunc(names, func(n string) bool { return n == "none" || n == "host" }); alone && len(names) > 1 {
		p.Add(path, "none and host must be alone")
	}
	return names
}

func (p *reader) volumes(path string, raw json.RawMessage) []volume {
	return specs.List(&p.Reader, path, raw, func(path string, item json.RawMessage) (v volume) {
		p.Mapping(path, item, specs.Fields{
			"path":      specs.To(&v.path, p.Path),
			"tmpfs":     specs.To(&v.tmpfs, p.size),
			"bind":      specs.To(&v.bind, p.Path),
			"volume":    specs.To(&v.name, p.volumeName),
			"read_only": specs.To(&v.readOnly, p.Boolean),
		})
		p.checkVolume(path, v)
		return v
	})
}

func (p *reader) volumeName(path string, raw json.RawMessage) string {
	name := p.NonEmpty(path, raw)
	if !p.Has(path) && !provider.ValidName(name) {
		p.Add(path, "%q is not a name of lower-case letters, digits and hyphens", name)
	}
	return name
}

func (p *reader) checkVolume(path string, v volume) {
	if p.Has(path) {
		return
	}
	switch {
	case v.path == "" || v.path == "/":
		p.Add(path+".path", "must be a path in the container")
	case v.path == agentDir || strings.HasPrefix(v.path, agentDir+"/"):
		p.Add(path+".path", "%s is the agent's", agentDir)
	case v.bind != "" && v.tmpfs != 0 || v.bind != "" && v.name != "" || v.name != "" && v.tmpfs != 0:
		p.Add(path, "must be one of bind, volume and tmpfs")
	case v.bind == "":
		if v.readOnly && v.name == "" {
			p.Add(path+".read_only", "is for a bind or a volume")
		}
	case !p.config.bindable(v.bind):
		p.Add(path+".bind", "%s is not below a path of `binds` in the provider's configuration", v.bind)
	case !v.readOnly:
		p.Add(path+".bind", "%s is a directory of the machine, which can be mounted with `read_only: true` only: "+
			"workspaces share what they write in a volume, `volume: NAME`", v.bind)
	default:
		if why := p.config.refused(v.bind); why != "" {
			p.Add(path+".bind", "%s", why)
		}
	}
}

func (p *reader) cpus(path string, raw json.RawMessage) float64 {
	var n float64
	if json.Unmarshal(raw, &n) != nil || n < 0.01 || n > 4096 {
		p.Add(path, "must be a number of processors from 0.01, such as 1.5")
	} else if most := p.config.Limits.CPUs; most > 0 && n > most {
		p.Add(path, "%g is more than the %g that the provider's configuration allows", n, most)
	}
	return n
}

func (p *reader) memory(path string, raw json.RawMessage) int64 {
	const least = 6 << 20 // as the engine has it
	n := p.size(path, raw)
	if most := int64(p.config.Limits.Memory); !p.Has(path) && most > 0 && n > most {
		p.Add(path, "%d bytes are more than the %d that the provider's configuration allows", n, most)
	} else if !p.Has(path) && n < least {
		p.Add(path, "must be 6m or more")
	}
	return n
}

func (p *reader) pids(path string, raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil || n < 1 {
		p.Add(path, "must be a number of processes from 1")
	} else if most := p.config.Limits.Pids; most > 0 && n > most {
		p.Add(path, "%d are more than the %d that the provider's configuration allows", n, most)
	}
	return n
}

func (p *reader) health(path string, raw json.RawMessage) *health {
	h := &health{interval: 5 * time.Second, timeout: 5 * time.Second, retries: 3}
	span := p.Span(0, time.Hour)
	p.Mapping(path, raw, specs.Fields{
		"command":      specs.To(&h.command, p.Command),
		"interval":     specs.To(&h.interval, span),
		"timeout":      specs.To(&h.timeout, span),
		"start_period": specs.To(&h.startPeriod, span),
		"retries": func(path string, raw json.RawMessage) {
			if json.Unmarshal(raw, &h.retries) != nil || h.retries < 1 {
				p.Add(path, "must be a number from 1")
			}
		},
	})
	if len(h.command) == 0 && !p.Has(path) {
		p.Add(path+".command", "is missing: give a program and its arguments")
	}
	return h
}

func (p *reader) readiness(path string, raw json.RawMessage) readiness {
	var r readiness
	var running bool
	p.Choice(path, raw, specs.Fields{
		"running": specs.To(&running, p.True),
		"healthy": specs.To(&r.Healthy, p.True),
		"tcp": func(path string, raw json.RawMessage) {
			if json.Unmarshal(raw, &r.TCP) != nil || r.TCP == 0 {
				p.Add(path, "must be a port of the container, from 1 to 65535")
			}
		},
		"command": specs.To(&r.Command, p.Command),
	})
	return r
}
