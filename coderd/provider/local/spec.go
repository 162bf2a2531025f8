package local

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

const (
	defaultStopGrace = 2 * time.Second
	maxStopGrace     = time.Minute
)

// spec is what a template's spec says, checked.
type spec struct {
	setup       []string // run to its end before the command; empty: nothing
	command     []string
	environment map[string]string
	port        bool          // wants a port of its own, as PORT
	stopGrace   time.Duration // between SIGTERM and SIGKILL
	readiness   readiness
}

// readiness is the condition, beside setup being over and command running. At most one of these is set.
type readiness struct {
	tcp    int    // loopback port that takes connections
	ownTCP bool   // the same, of the port that was given to it
	file   string // path within home that exists
}

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	p := &reader{}
	s := spec{stopGrace: defaultStopGrace}
	for _, f := range p.Object("", raw) {
		switch f.Key {
		case "command":
			s.command = p.Command(f.Key, f.Value)
		case "setup":
			s.setup = p.Command(f.Key, f.Value)
		case "environment":
			s.environment = p.Environment(f.Key, f.Value)
		case "port":
			s.port = p.Boolean(f.Key, f.Value)
		case "stop_grace":
			s.stopGrace = p.Duration(f.Key, f.Value, 0, maxStopGrace)
		case "readiness":
			s.readiness = p.readiness(f.Key, f.Value)
		default:
			p.Unknown(f.Key, "command, environment, port, readiness, setup, stop_grace")
		}
	}
	if len(s.command) == 0 && !p.Has("command") {
		p.Add("command", "is missing: give the program and its arguments, such as [sleep, infinity]")
	}
	if s.readiness.ownTCP && !s.port && !p.Has("port") {
		p.Add("readiness.tcp", `"$PORT" needs port: true`)
	}
	if _, ok := s.environment["PORT"]; ok && s.port {
		p.Add("environment.PORT", "is set by port: true")
	}
	if s.readiness == (readiness{}) && p.setupReadiness && len(s.setup) == 0 && !p.Has("setup") {
		p.Add("readiness.setup", "there is no setup to wait for")
	}
	p.Parameters(parameters)
	return s, p.Problems
}

type reader struct {
	specs.Reader
	setupReadiness bool
}

func (p *reader) readiness(path string, raw json.RawMessage) readiness {
	var r readiness
	fields := p.Object(path, raw)
	if len(fields) > 1 {
		p.Add(path, "must have one of file, setup and tcp")
	}
	for _, f := range fields {
		path := path + "." + f.Key
		switch f.Key {
		case "setup":
			p.setupReadiness = p.True(path, f.Value)
		case "tcp":
			var port int
			if string(bytes.TrimSpace(f.Value)) == `"$PORT"` {
				r.ownTCP = true
			} else if json.Unmarshal(f.Value, &port) != nil || port < 1 || port > 65535 {
				p.Add(path, `must be a port from 1 to 65535, or "$PORT"`)
			}
			r.tcp = port
		case "file":
			r.file = p.Text(path, f.Value)
			if !p.Has(path) && !filepath.IsLocal(r.file) {
				p.Add(path, "must be a path within the workspace")
			}
		default:
			p.Unknown(path, "file, setup, tcp")
		}
	}
	return r
}
