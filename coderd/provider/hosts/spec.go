package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// spec is what a template's spec says, checked: shell scripts, and how long each may take.
type spec struct {
	prepare, reset, check, proof string // empty: none
	environment                  map[string]string
	prepareTimeout               time.Duration
	resetTimeout                 time.Duration
	checkTimeout                 time.Duration // of proof too
}

const (
	maxScript  = 256 << 10
	maxTimeout = 24 * time.Hour
	known      = "check, check_timeout, environment, prepare, prepare_timeout, proof, reset, reset_timeout"
)

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	p := &specParser{}
	s := spec{prepareTimeout: 10 * time.Minute, resetTimeout: 5 * time.Minute, checkTimeout: 10 * time.Second}
	for _, f := range p.object("", raw) {
		switch f.key {
		case "prepare":
			s.prepare = p.script(f)
		case "reset":
			s.reset = p.script(f)
		case "check":
			s.check = p.script(f)
		case "proof":
			s.proof = p.script(f)
		case "prepare_timeout":
			s.prepareTimeout = p.duration(f)
		case "reset_timeout":
			s.resetTimeout = p.duration(f)
		case "check_timeout":
			s.checkTimeout = p.duration(f)
		case "environment":
			s.environment = p.environment(f)
		default:
			p.add(f.key, "is not known here; known are %s", known)
		}
	}
	if s.reset == "" && !p.has("reset") {
		p.add("reset", "is missing: give the script that makes the machine like new; `true`, if it is enough to end the "+
			"workspace's processes and to remove its directory")
	}
	p.parameters(parameters)
	return s, p.problems
}

type specParser struct{ problems []provider.Problem }

func (p *specParser) add(path, format string, args ...any) {
	p.problems = append(p.problems, provider.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (p *specParser) has(path string) bool {
	return slices.ContainsFunc(p.problems, func(q provider.Problem) bool { return q.Path == path || q.Path == "" })
}

type field struct {
	key   string
	value json.RawMessage
}

// object returns the fields of a mapping in order of their names.
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

func (p *specParser) script(f field) string {
	s := p.text(f.key, f.value)
	switch {
	case p.has(f.key):
	case strings.TrimSpace(s) == "":
		p.add(f.key, "is empty: give a shell script, or leave it out")
	case len(s) > maxScript:
		p.add(f.key, "has %d bytes: at most %d are possible; have the script fetch what is larger", len(s), maxScript)
	}
	return s
}

func (p *specParser) duration(f field) time.Duration {
	var s string
	_ = json.Unmarshal(f.value, &s)
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > maxTimeout {
		p.add(f.key, "must be a duration from 1s to %s, such as 5m", maxTimeout)
	}
	return d
}

func (p *specParser) environment(in field) map[string]string {
	env := map[string]string{}
	for _, f := range p.object(in.key, in.value) {
		path := in.key + "." + f.key
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

// parameterVariable is the variable that carries a parameter: region-a becomes PARAM_REGION_A.
func parameterVariable(name string) string {
	return "PARAM_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		}
		return '_'
	}, name)
}
