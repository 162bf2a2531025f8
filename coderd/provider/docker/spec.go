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

const knownFields = "command, cpus, entrypoint, environment, health, image, init, memory, networks, pids, ports, privileges, " +
	"pull, readiness, stop_grace, user, volumes, working_dir"

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(c Config, raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	p := &reader{config: c}
	s := spec{
		pull: pullMissing, stopGrace: defaultStopGrace, pids: defaultPids, cpus: c.Limits.CPUs, memory: int64(c.Limits.Memory),
	}
	if c.Limits.Pids > 0 {
		s.pids = c.Limits.Pids
	}
	for _, f := range p.Object("", raw) {
		p.field(&s, f)
	}
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
	n, ok := parseSize(raw)
	if !ok {
		p.Add(path, "must be a size such as 512m or 2g")
	}
	return n
}

func (p *reader) field(s *spec, f specs.Field) {
	switch f.Key {
	case "image":
		s.image = p.image(f.Key, f.Value)
	case "command":
		s.command = p.Command(f.Key, f.Value)
	case "entrypoint":
		s.entrypoint = p.Command(f.Key, f.Value)
	case "environment":
		s.environment = p.Environment(f.Key, f.Value)
	case "working_dir":
		s.workingDir = p.Path(f.Key, f.Value)
	case "user":
		s.user = p.NonEmpty(f.Key, f.Value)
	case "ports":
		s.ports = p.ports(f.Key, f.Value)
	case "networks":
		s.networks = p.networks(f.Key, f.Value)
	case "volumes":
		s.volumes = p.volumes(f.Key, f.Value)
	case "cpus":
		s.cpus = p.cpus(f.Key, f.Value)
	case "memory":
		s.memory = p.memory(f.Key, f.Value)
	case "pids":
		s.pids = p.pids(f.Key, f.Value)
	case "pull":
		s.pull = p.NonEmpty(f.Key, f.Value)
		if !slices.Contains([]string{pullMissing, pullNever, pullAlways}, s.pull) && !p.Has(f.Key) {
			p.Add(f.Key, "must be missing, never or always")
		}
	case "health":
		s.health = p.health(f.Key, f.Value)
	case "readiness":
		s.readiness = p.readiness(f.Key, f.Value)
	case "stop_grace":
		s.stopGrace = p.Duration(f.Key, f.Value, 0, maxStopGrace)
		if s.stopGrace%time.Second != 0 {
			p.Add(f.Key, "must be of whole seconds")
		}
	case "init":
		s.init = p.Boolean(f.Key, f.Value)
	case "privileges":
		s.privileges = p.privileges(f.Key, f.Value)
	default:
		p.Unknown(f.Key, knownFields)
	}
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
	var ports []network.Port
	for i, item := range p.List(path, raw) {
		path := fmt.Sprintf("%s[%d]", path, i)
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
			continue
		}
		ports = append(ports, port)
	}
	return ports
}

func (p *reader) networks(path string, raw json.RawMessage) []string {
	var names []string
	for i, item := range p.List(path, raw) {
		path := fmt.Sprintf("%s[%d]", path, i)
		name := p.NonEmpty(path, item)
		if !p.Has(path) && !p.config.attachable(name) {
			p.Add(path, "%q is not one of the networks that the provider's configuration allows", name)
		}
		names = append(names, name)
	}
	if alone := slices.ContainsFunc(names, func(n string) bool { return n == "none" || n == "host" }); alone && len(names) > 1 {
		p.Add(path, "none and host must be alone")
	}
	return names
}

func (p *reader) volumes(path string, raw json.RawMessage) []volume {
	var volumes []volume
	for i, item := range p.List(path, raw) {
		path := fmt.Sprintf("%s[%d]", path, i)
		var v volume
		for _, f := range p.Object(path, item) {
			path := path + "." + f.Key
			switch f.Key {
			case "path":
				v.path = p.Path(path, f.Value)
			case "tmpfs":
				v.tmpfs = p.size(path, f.Value)
			case "bind":
				v.bind = p.Path(path, f.Value)
			case "volume":
				v.name = p.NonEmpty(path, f.Value)
				if !p.Has(path) && !validName.MatchString(v.name) {
					p.Add(path, "%q is not a name of lower-case letters, digits and hyphens", v.name)
				}
			case "read_only":
				v.readOnly = p.Boolean(path, f.Value)
			default:
				p.Unknown(path, "bind, path, read_only, tmpfs, volume")
			}
		}
		p.checkVolume(path, v)
		volumes = append(volumes, v)
	}
	return volumes
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
	for _, f := range p.Object(path, raw) {
		path := path + "." + f.Key
		switch f.Key {
		case "command":
			h.command = p.Command(path, f.Value)
		case "interval":
			h.interval = p.Duration(path, f.Value, 0, time.Hour)
		case "timeout":
			h.timeout = p.Duration(path, f.Value, 0, time.Hour)
		case "start_period":
			h.startPeriod = p.Duration(path, f.Value, 0, time.Hour)
		case "retries":
			if json.Unmarshal(f.Value, &h.retries) != nil || h.retries < 1 {
				p.Add(path, "must be a number from 1")
			}
		default:
			p.Unknown(path, "command, interval, retries, start_period, timeout")
		}
	}
	if len(h.command) == 0 && !p.Has(path) {
		p.Add(path+".command", "is missing: give a program and its arguments")
	}
	return h
}

func (p *reader) readiness(path string, raw json.RawMessage) readiness {
	var r readiness
	fields := p.Object(path, raw)
	if len(fields) > 1 {
		p.Add(path, "must have one of command, healthy, running and tcp")
	}
	for _, f := range fields {
		path := path + "." + f.Key
		switch f.Key {
		case "running", "healthy":
			p.True(path, f.Value)
			r.Healthy = f.Key == "healthy"
		case "tcp":
			if json.Unmarshal(f.Value, &r.TCP) != nil || r.TCP == 0 {
				p.Add(path, "must be a port of the container, from 1 to 65535")
			}
		case "command":
			r.Command = p.Command(path, f.Value)
		default:
			p.Unknown(path, "command, healthy, running, tcp")
		}
	}
	return r
}
