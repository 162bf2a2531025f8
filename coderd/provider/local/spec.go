package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
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
	p := &specParser{}
	s := spec{stopGrace: defaultStopGrace}
	for _, f := range p.object("", raw) {
		switch f.key {
		case "command":
			s.command = p.words(f.key, f.value)
		case "setup":
			s.setup = p.words(f.key, f.value)
		case "environment":
			s.environment = p.environment(f.key, f.value)
		case "port":
			s.port = p.boolean(f.key, f.value)
		case "stop_grace":
			s.stopGrace = p.duration(f.key, f.value)
		case "readiness":
			s.readiness = p.readiness(f.key, f.value)
		default:
			p.unknown(f.key, "command, environment, port, readiness, setup, stop_grace")
		}
	}
	if len(s.command) == 0 && !p.has("command") {
		p.add("command", "is missing: give the program and its arguments, such as [sleep, infinity]")
	}
	if s.readiness.ownTCP && !s.port && !p.has("port") {
		p.add("readiness.tcp", `"$PORT" needs port: true`)
	}
	if _, ok := s.environment["PORT"]; ok && s.port {
		p.add("environment.PORT", "is set by port: true")
	}
	if s.readiness == (readiness{}) && p.setupReadiness && len(s.setup) == 0 && !p.has("setup") {
		p.add("readiness.setup", "there is no setup to wait for")
	}
	p.parameters(parameters)
	return s, p.problems
}

type specParser struct {
	problems       []provider.Problem
	setupReadiness bool
}

func (p *specParser) add(path, format string, args ...any) {
	p.problems = append(p.problems, provider.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// has says whether a path, or something below it, has a problem already.
func (p *specParser) has(path string) bool {
	return slices.ContainsFunc(p.problems, func(q provider.Problem) bool { return strings.HasPrefix(q.Path, path) })
}

func (p *specParser) unknown(path, known string) {
	p.add(path, "is not known here; known are %s", known)
}

type field struct {
	key   string
	value json.RawMessage
}

// object returns the fields of an object in order of their names.
func (p *specParser) object(path string, raw json.RawMessage) []field {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		p.add(path, "must be a mapping")
	}
	var fields []field
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, field{k, m[k]})
	}
	return fields
}

// words reads a program and its arguments.
func (p *specParser) words(path string, raw json.RawMessage) []string {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || len(items) == 0 {
		p.add(path, "must be a list of a program and its arguments, such as [sh, -c, make]")
		return nil
	}
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = p.text(fmt.Sprintf("%s[%d]", path, i), item)
	}
	if words[0] == "" && !p.has(path) {
		p.add(path+"[0]", "must name a program")
	}
	return words
}

// text reads a string that can be an argument or a variable.
func (p *specParser) text(path string, raw json.RawMessage) string {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		p.add(path, "must be a string: put %s in quotes", bytes.TrimSpace(raw))
		return ""
	}
	if strings.ContainsRune(*s, 0) {
		p.add(path, "must not contain a NUL character")
	}
	return *s
}

func (p *specParser) boolean(path string, raw json.RawMessage) bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil || b == nil {
		p.add(path, "must be true or false")
		return false
	}
	return *b
}

func (p *specParser) duration(path string, raw json.RawMessage) time.Duration {
	var s string
	_ = json.Unmarshal(raw, &s)
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxStopGrace {
		p.add(path, "must be a duration from 0s to %s, such as 5s", maxStopGrace)
	}
	return d
}

func (p *specParser) environment(path string, raw json.RawMessage) map[string]string {
	env := map[string]string{}
	for _, f := range p.object(path, raw) {
		path := path + "." + f.key
		switch {
		case !provider.ValidVariable(f.key):
			p.add(path, "is not a name for a variable")
		case strings.HasPrefix(f.key, "PREWARM_"):
			p.add(path, "names that begin with PREWARM_ are reserved")
		}
		env[f.key] = p.text(path, f.value)
	}
	return env
}

func (p *specParser) readiness(path string, raw json.RawMessage) readiness {
	var r readiness
	fields := p.object(path, raw)
	if len(fields) > 1 {
		p.add(path, "must have one of file, setup and tcp")
	}
	for _, f := range fields {
		path := path + "." + f.key
		switch f.key {
		case "setup":
			p.setupReadiness = p.boolean(path, f.value)
			if !p.setupReadiness && !p.has(path) {
				p.add(path, "must be true; leave it out otherwise")
			}
		case "tcp":
			var port int
			if string(bytes.TrimSpace(f.value)) == `"$PORT"` {
				r.ownTCP = true
			} else if json.Unmarshal(f.value, &port) != nil || port < 1 || port > 65535 {
				p.add(path, `must be a port from 1 to 65535, or "$PORT"`)
			}
			r.tcp = port
		case "file":
			r.file = p.text(path, f.value)
			if !p.has(path) && !filepath.IsLocal(r.file) {
				p.add(path, "must be a path within the workspace")
			}
		default:
			p.unknown(path, "file, setup, tcp")
		}
	}
	return r
}

// parameters become variables: two that become the same are a mistake.
func (p *specParser) parameters(parameters map[string]string) {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		path := "parameters." + name
		if strings.ContainsRune(parameters[name], 0) {
			p.add(path, "must not contain a NUL character")
		}
		variable := parameterVariable(name)
		if other, ok := seen[variable]; ok {
			p.add(path, "becomes the variable %s, as %s does", variable, other)
		}
		seen[variable] = name
	}
}
