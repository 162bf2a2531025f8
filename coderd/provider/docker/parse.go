package docker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// specParser reads values of a spec, and collects what is wrong with them.
type specParser struct {
	config   Config
	problems []provider.Problem
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

func (p *specParser) list(path string, raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		p.add(path, "must be a list")
	}
	return items
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

func (p *specParser) nonEmpty(path string, raw json.RawMessage) string {
	s := p.text(path, raw)
	if s == "" && !p.has(path) {
		p.add(path, "must not be empty")
	}
	return s
}

// path reads an absolute path, and cleans it.
func (p *specParser) path(at string, raw json.RawMessage) string {
	s := p.nonEmpty(at, raw)
	if !p.has(at) && !path.IsAbs(s) {
		p.add(at, "must be an absolute path")
	}
	return path.Clean(s)
}

func (p *specParser) size(path string, raw json.RawMessage) int64 {
	n, ok := parseSize(raw)
	if !ok {
		p.add(path, "must be a size such as 512m or 2g")
	}
	return n
}

func (p *specParser) boolean(path string, raw json.RawMessage) bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil || b == nil {
		p.add(path, "must be true or false")
		return false
	}
	return *b
}

func (p *specParser) duration(path string, raw json.RawMessage, most time.Duration) time.Duration {
	var s string
	_ = json.Unmarshal(raw, &s)
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > most {
		p.add(path, "must be a duration from 0s to %s, such as 5s", most)
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
