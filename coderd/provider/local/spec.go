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
	p.Mapping("", raw, specs.Fields{
		"command":     specs.To(&s.command, p.Command),
		"setup":       specs.To(&s.setup, p.Command),
		"environment": specs.To(&s.environment, p.Environment),
		"port":        specs.To(&s.port, p.Boolean),
		"stop_grace":  specs.To(&s.stopGrace, p.Span(0, maxStopGrace)),
		"readiness":   specs.To(&s.readiness, p.readiness),
	})
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
	p.Choice(path, raw, specs.Fields{
		"setup": specs.To(&p.setupReadiness, p.True),
		"tcp": func(path string, raw json.RawMessage) {
			if string(bytes.TrimSpace(raw)) == `"$PORT"` {
				r.ownTCP = true
			} else if json.Unmarshal(raw, &r.tcp) != nil || r.tcp < 1 || r.tcp > 65535 {
				p.Add(path, `must be a port from 1 to 65535, or "$PORT"`)
			}
		},
		"file": func(path string, raw json.RawMessage) {
			r.file = p.Text(path, raw)
			if !p.Has(path) && !filepath.IsLocal(r.file) {
				p.Add(path, "must be a path within the workspace")
			}
		},
	})
	return r
}
