// Package specs reads the specs of templates for the providers that are part of Prewarm. A Reader returns values, and
// collects every problem by its path, so that an author sees all of them at once.
package specs

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

// Reader reads one spec. Each of its methods takes the path of a value and the value; where a value is wrong, it adds a
// problem and returns what could be read, or zero.
type Reader struct {
	Problems []provider.Problem
}

// Field is a value in a mapping.
type Field struct {
	Key   string
	Value json.RawMessage
}

// Add adds a problem.
func (r *Reader) Add(path, format string, args ...any) {
	r.Problems = append(r.Problems, provider.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Has says whether a path, something below it, or the whole spec has a problem already.
func (r *Reader) Has(path string) bool {
	return slices.ContainsFunc(r.Problems, func(q provider.Problem) bool {
		return q.Path == "" || strings.HasPrefix(q.Path, path)
	})
}

// Unknown adds the problem of a key that a mapping does not have.
func (r *Reader) Unknown(path, known string) { r.Add(path, "is not known here; known are %s", known) }

// Object returns the fields of a mapping in order of their keys.
func (r *Reader) Object(path string, raw json.RawMessage) []Field {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		r.Add(path, "must be a mapping")
	}
	var fields []Field
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, Field{k, m[k]})
	}
	return fields
}

// List returns the items of a list.
func (r *Reader) List(path string, raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		r.Add(path, "must be a list")
	}
	return items
}

// Command reads a program and its arguments.
func (r *Reader) Command(path string, raw json.RawMessage) []string {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || len(items) == 0 {
		r.Add(path, "must be a list of a program and its arguments, such as [sh, -c, make]")
		return nil
	}
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = r.Text(fmt.Sprintf("%s[%d]", path, i), item)
	}
	if words[0] == "" && !r.Has(path) {
		r.Add(path+"[0]", "must name a program")
	}
	return words
}

// Text reads a string that can be an argument or the value of a variable.
func (r *Reader) Text(path string, raw json.RawMessage) string {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		r.Add(path, "must be a string: put %s in quotes", bytes.TrimSpace(raw))
		return ""
	}
	r.checkText(path, *s)
	return *s
}

func (r *Reader) checkText(path, s string) {
	if strings.ContainsRune(s, 0) {
		r.Add(path, "must not contain a NUL character")
	}
}

// NonEmpty reads a string that says something.
func (r *Reader) NonEmpty(path string, raw json.RawMessage) string {
	s := r.Text(path, raw)
	if s == "" && !r.Has(path) {
		r.Add(path, "must not be empty")
	}
	return s
}

// Path reads an absolute path, and cleans it.
func (r *Reader) Path(at string, raw json.RawMessage) string {
	s := r.NonEmpty(at, raw)
	if !r.Has(at) && !path.IsAbs(s) {
		r.Add(at, "must be an absolute path")
	}
	return path.Clean(s)
}

// Boolean reads true or false.
func (r *Reader) Boolean(path string, raw json.RawMessage) bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil || b == nil {
		r.Add(path, "must be true or false")
		return false
	}
	return *b
}

// True reads what is either true or left out.
func (r *Reader) True(path string, raw json.RawMessage) bool {
	yes := r.Boolean(path, raw)
	if !yes && !r.Has(path) {
		r.Add(path, "must be true; leave it out otherwise")
	}
	return yes
}

// Duration reads one from least to most.
func (r *Reader) Duration(path string, raw json.RawMessage, least, most time.Duration) time.Duration {
	var s string
	_ = json.Unmarshal(raw, &s)
	d, err := time.ParseDuration(s)
	if err != nil || d < least || d > most {
		r.Add(path, "must be a duration from %s to %s, such as 5s", least, most)
	}
	return d
}

// Environment reads variables, which are neither Prewarm's own nor impossible.
func (r *Reader) Environment(path string, raw json.RawMessage) map[string]string {
	env := map[string]string{}
	for _, f := range r.Object(path, raw) {
		path := path + "." + f.Key
		switch {
		case !provider.ValidVariable(f.Key):
			r.Add(path, "is not a name for a variable")
		case strings.HasPrefix(f.Key, "PREWARM_"):
			r.Add(path, "names that begin with PREWARM_ are reserved")
		}
		env[f.Key] = r.Text(path, f.Value)
	}
	return env
}

// Parameters checks those of a preset. They become variables: two that become the same are a mistake.
func (r *Reader) Parameters(parameters map[string]string) {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		path := "parameters." + name
		r.checkText(path, parameters[name])
		variable := provider.ParameterVariable(name)
		if other, ok := seen[variable]; ok {
			r.Add(path, "becomes the variable %s, as %s does", variable, other)
		}
		seen[variable] = name
	}
}
