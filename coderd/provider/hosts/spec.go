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
)

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	p := &reader{}
	s := spec{prepareTimeout: 10 * time.Minute, resetTimeout: 5 * time.Minute, checkTimeout: 10 * time.Second}
	timeout := p.Span(time.Second, maxTimeout)
	p.Mapping("", raw, specs.Fields{
		"prepare":         specs.To(&s.prepare, p.script),
		"reset":           specs.To(&s.reset, p.script),
		"check":           specs.To(&s.check, p.script),
		"proof":           specs.To(&s.proof, p.script),
		"prepare_timeout": specs.To(&s.prepareTimeout, timeout),
		"reset_timeout":   specs.To(&s.resetTimeout, timeout),
		"check_timeout":   specs.To(&s.checkTimeout, timeout),
		"environment":     specs.To(&s.environment, p.Environment),
	})
	if s.reset == "" && !p.Has("reset") {
		p.Add("reset", "is missing: give the script that resets the machine; `true`, if it is enough to end the "+
			"workspace's processes and to remove its directory")
	}
	p.Parameters(parameters)
	return s, p.Problems
}

type reader struct{ specs.Reader }

func (p *reader) script(path string, raw json.RawMessage) string {
	s := p.Text(path, raw)
	switch {
	case p.Has(path):
	case strings.TrimSpace(s) == "":
		p.Add(path, "is empty: give a shell script, or leave it out")
	case len(s) > maxScript:
		p.Add(path, "has %d bytes: at most %d are possible; have the script fetch what is larger", len(s), maxScript)
	}
	return s
}
