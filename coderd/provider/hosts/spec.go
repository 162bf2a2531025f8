package hosts

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
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
	p := &reader{}
	s := spec{prepareTimeout: 10 * time.Minute, resetTimeout: 5 * time.Minute, checkTimeout: 10 * time.Second}
	for _, f := range p.Object("", raw) {
		switch f.Key {
		case "prepare":
			s.prepare = p.script(f)
		case "reset":
			s.reset = p.script(f)
		case "check":
			s.check = p.script(f)
		case "proof":
			s.proof = p.script(f)
		case "prepare_timeout":
			s.prepareTimeout = p.Duration(f.Key, f.Value, time.Second, maxTimeout)
		case "reset_timeout":
			s.resetTimeout = p.Duration(f.Key, f.Value, time.Second, maxTimeout)
		case "check_timeout":
			s.checkTimeout = p.Duration(f.Key, f.Value, time.Second, maxTimeout)
		case "environment":
			s.environment = p.Environment(f.Key, f.Value)
		default:
			p.Unknown(f.Key, known)
		}
	}
	if s.reset == "" && !p.Has("reset") {
		p.Add("reset", "is missing: give the script that resets the machine; `true`, if it is enough to end the "+
			"workspace's processes and to remove its directory")
	}
	p.Parameters(parameters)
	return s, p.Problems
}

type reader struct{ specs.Reader }

func (p *reader) script(f specs.Field) string {
	s := p.Text(f.Key, f.Value)
	switch {
	case p.Has(f.Key):
	case strings.TrimSpace(s) == "":
		p.Add(f.Key, "is empty: give a shell script, or leave it out")
	case len(s) > maxScript:
		p.Add(f.Key, "has %d bytes: at most %d are possible; have the script fetch what is larger", len(s), maxScript)
	}
	return s
}
