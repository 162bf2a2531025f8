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

const knownFields = "command, cpus, entrypoint, environment, health, image, init, memory, networks, pids, ports, pull, " +
	"readiness, stop_grace, user, volumes, working_dir"

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(c Config, raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	p := &specParser{config: c}
	s := spec{
		pull: pullMissing, stopGrace: defaultStopGrace, pids: defaultPids, cpus: c.Limits.CPUs, memory: int64(c.Limits.Memory),
	}
	if c.Limits.Pids > 0 {
		s.pids = c.Limits.Pids
	}
	for _, f := range p.object("", raw) {
		p.field(&s, f)
	}
	if s.image == "" && !p.has("image") {
		p.add("image", "is missing: give the reference of an image, such as debian:12")
	}
	if len(s.networks) == 0 && c.Network != "" {
		s.networks = []string{c.Network}
	}
	if len(s.ports) > 0 && (slices.Contains(s.networks, "none") || slices.Contains(s.networks, "host")) {
		p.add("ports", "need a network of the container's own: it is %s", strings.Join(s.networks, ", "))
	}
	p.parameters(parameters)
	return s, p.problems
}

func (p *specParser) field(s *spec, f field) {
	switch f.key {
	case "image":
		s.image = p.image(f.key, f.value)
	case "command":
		s.command = p.words(f.key, f.value)
	case "entrypoint":
		s.entrypoint = p.words(f.key, f.value)
	case "environment":
		s.environment = p.environment(f.key, f.value)
	case "working_dir":
		s.workingDir = p.path(f.key, f.value)
	case "user":
		s.user = p.nonEmpty(f.key, f.value)
	case "ports":
		s.ports = p.ports(f.key, f.value)
	case "networks":
		s.networks = p.networks(f.key, f.value)
	case "volumes":
		s.volumes = p.volumes(f.key, f.value)
	case "cpus":
		s.cpus = p.cpus(f.key, f.value)
	case "memory":
		s.memory = p.memory(f.key, f.value)
	case "pids":
		s.pids = p.pids(f.key, f.value)
	case "pull":
		s.pull = p.nonEmpty(f.key, f.value)
		if !slices.Contains([]string{pullMissing, pullNever, pullAlways}, s.pull) && !p.has(f.key) {
			p.add(f.key, "must be missing, never or always")
		}
	case "health":
		s.health = p.health(f.key, f.value)
	case "readiness":
		s.readiness = p.readiness(f.key, f.value)
	case "stop_grace":
		s.stopGrace = p.duration(f.key, f.value, maxStopGrace)
		if s.stopGrace%time.Second != 0 {
			p.add(f.key, "must be of whole seconds")
		}
	case "init":
		s.init = p.boolean(f.key, f.value)
	default:
		p.unknown(f.key, knownFields)
	}
}

func (p *specParser) image(path string, raw json.RawMessage) string {
	s := p.nonEmpty(path, raw)
	if p.has(path) {
		return ""
	}
	if _, err := reference.ParseDockerRef(s); err != nil {
		p.add(path, "%q is not the reference of an image, such as debian:12: %s", s, err)
	}
	return s
}

func (p *specParser) ports(path string, raw json.RawMessage) []network.Port {
	var ports []network.Port
	for i, item := range p.list(path, raw) {
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
			p.add(path, `must be a port from 1 to 65535, such as 8080 or "53/udp"`)
			continue
		}
		ports = append(ports, port)
	}
	return ports
}

func (p *specParser) networks(path string, raw json.RawMessage) []string {
	var names []string
	for i, item := range p.list(path, raw) {
		path := fmt.Sprintf("%s[%d]", path, i)
		name := p.nonEmpty(path, item)
		if !p.has(path) && !p.config.attachable(name) {
			p.add(path, "%q is not one of the networks that the provider's configuration allows", name)
		}
		names = append(names, name)
	}
	if alone := slices.ContainsFunc(names, func(n string) bool { return n == "none" || n == "host" }); alone && len(names) > 1 {
		p.add(path, "none and host must be alone")
	}
	return names
}

func (p *specParser) volumes(path string, raw json.RawMessage) []volume {
	var volumes []volume
	for i, item := range p.list(path, raw) {
		path := fmt.Sprintf("%s[%d]", path, i)
		var v volume
		for _, f := range p.object(path, item) {
			path := path + "." + f.key
			switch f.key {
			case "path":
				v.path = p.path(path, f.value)
			case "tmpfs":
				v.tmpfs = p.size(path, f.value)
			case "bind":
				v.bind = p.path(path, f.value)
			case "volume":
				v.name = p.nonEmpty(path, f.value)
				if !p.has(path) && !validName.MatchString(v.name) {
					p.add(path, "%q is not a name of lower-case letters, digits and hyphens", v.name)
				}
			case "read_only":
				v.readOnly = p.boolean(path, f.value)
			default:
				p.unknown(path, "bind, path, read_only, tmpfs, volume")
			}
		}
		p.checkVolume(path, v)
		volumes = append(volumes, v)
	}
	return volumes
}

func (p *specParser) checkVolume(path string, v volume) {
	if p.has(path) {
		return
	}
	switch {
	case v.path == "" || v.path == "/":
		p.add(path+".path", "must be a path in the container")
	case v.path == agentDir || strings.HasPrefix(v.path, agentDir+"/"):
		p.add(path+".path", "%s is the agent's", agentDir)
	case v.bind != "" && v.tmpfs != 0 || v.bind != "" && v.name != "" || v.name != "" && v.tmpfs != 0:
		p.add(path, "must be one of bind, volume and tmpfs")
	case v.bind == "":
		if v.readOnly && v.name == "" {
			p.add(path+".read_only", "is for a bind or a volume")
		}
	case !p.config.bindable(v.bind):
		p.add(path+".bind", "%s is not below a path of `binds` in the provider's configuration", v.bind)
	case !v.readOnly:
		p.add(path+".bind", "%s is a directory of the machine, which can be mounted with `read_only: true` only: "+
			"workspaces share what they write in a volume, `volume: NAME`", v.bind)
	default:
		if why := p.config.refused(v.bind); why != "" {
			p.add(path+".bind", "%s", why)
		}
	}
}

func (p *specParser) cpus(path string, raw json.RawMessage) float64 {
	var n float64
	if json.Unmarshal(raw, &n) != nil || n < 0.01 || n > 4096 {
		p.add(path, "must be a number of processors from 0.01, such as 1.5")
	} else if most := p.config.Limits.CPUs; most > 0 && n > most {
		p.add(path, "%g is more than the %g that the provider's configuration allows", n, most)
	}
	return n
}

func (p *specParser) memory(path string, raw json.RawMessage) int64 {
	const least = 6 << 20 // as the engine has it
	n := p.size(path, raw)
	if most := int64(p.config.Limits.Memory); !p.has(path) && most > 0 && n > most {
		p.add(path, "%d bytes are more than the %d that the provider's configuration allows", n, most)
	} else if !p.has(path) && n < least {
		p.add(path, "must be 6m or more")
	}
	return n
}

func (p *specParser) pids(path string, raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil || n < 1 {
		p.add(path, "must be a number of processes from 1")
	} else if most := p.config.Limits.Pids; most > 0 && n > most {
		p.add(path, "%d are more than the %d that the provider's configuration allows", n, most)
	}
	return n
}

func (p *specParser) health(path string, raw json.RawMessage) *health {
	h := &health{interval: 5 * time.Second, timeout: 5 * time.Second, retries: 3}
	for _, f := range p.object(path, raw) {
		path := path + "." + f.key
		switch f.key {
		case "command":
			h.command = p.words(path, f.value)
		case "interval":
			h.interval = p.duration(path, f.value, time.Hour)
		case "timeout":
			h.timeout = p.duration(path, f.value, time.Hour)
		case "start_period":
			h.startPeriod = p.duration(path, f.value, time.Hour)
		case "retries":
			if json.Unmarshal(f.value, &h.retries) != nil || h.retries < 1 {
				p.add(path, "must be a number from 1")
			}
		default:
			p.unknown(path, "command, interval, retries, start_period, timeout")
		}
	}
	if len(h.command) == 0 && !p.has(path) {
		p.add(path+".command", "is missing: give a program and its arguments")
	}
	return h
}

func (p *specParser) readiness(path string, raw json.RawMessage) readiness {
	var r readiness
	fields := p.object(path, raw)
	if len(fields) > 1 {
		p.add(path, "must have one of command, healthy, running and tcp")
	}
	for _, f := range fields {
		path := path + "." + f.key
		switch f.key {
		case "running", "healthy":
			yes := p.boolean(path, f.value)
			if !yes && !p.has(path) {
				p.add(path, "must be true; leave it out otherwise")
			}
			r.Healthy = f.key == "healthy"
		case "tcp":
			if json.Unmarshal(f.value, &r.TCP) != nil || r.TCP == 0 {
				p.add(path, "must be a port of the container, from 1 to 65535")
			}
		case "command":
			r.Command = p.words(path, f.value)
		default:
			p.unknown(path, "command, healthy, running, tcp")
		}
	}
	return r
}
