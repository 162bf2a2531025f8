// Package specs reads the specs of templates, and the configurations of providers, for those that are part of Prewarm. A
// Reader returns values of a spec, and collects every problem by its path, so that an author sees all of them at once.
package specs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
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

// Fields are what a mapping may have: by key, what reads its value.
type Fields map[string]func(path string, raw json.RawMessage)

// To stores what read, such as a method of a Reader, returns.
func To[T any](into *T, read func(path string, raw json.RawMessage) T) func(string, json.RawMessage) {
	return func(path string, raw json.RawMessage) { *into = read(path, raw) }
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

// Into reads a value into what it must be like, which shape says for people. Fields that it does not know are a problem.
func (r *Reader) Into(into any, shape string) func(path string, raw json.RawMessage) {
	return func(path string, raw json.RawMessage) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if d.Decode(into) != nil {
			r.Add(path, "must be %s", shape)
		}
	}
}

// Mapping reads the values of a mapping in order of their keys. A key that the mapping does not have is a problem.
func (r *Reader) Mapping(path string, raw json.RawMessage, fields Fields) {
	for key, value := range r.object(path, raw) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if read, ok := fields[key]; ok {
			read(at, value)
		} else {
			r.Add(at, "is not known here; known are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
	}
}

// Choice reads a mapping that may have one of its fields.
func (r *Reader) Choice(path string, raw json.RawMessage, fields Fields) {
	var given map[string]json.RawMessage
	if _ = json.Unmarshal(raw, &given); len(given) > 1 {
		known := slices.Sorted(maps.Keys(fields))
		last := len(known) - 1
		r.Add(path, "must have one of %s and %s", strings.Join(known[:last], ", "), known[last])
	}
	r.Mapping(path, raw, fields)
}

func (r *Reader) object(path string, raw json.RawMessage) iter.Seq2[string, json.RawMessage] {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		r.Add(path, "must be a mapping")
	}
	return func(yield func(string, json.RawMessage) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// List reads the items of a list, each at its own path.
func List[T any](r *Reader, path string, raw json.RawMessage, read func(path string, raw json.RawMessage) T) []T {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		r.Add(path, "must be a list")
	}
	var all []T
	for i, item := range items {
		all = append(all, read(fmt.Sprintf("%s[%d]", path, i), item))
	}
	return all
}

// Command reads a program and its arguments.
func (r *Reader) Command(path string, raw json.RawMessage) []string {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || len(items) == 0 {
		r.Add(path, "must be a list of a program and its arguments, such as [sh, -c, make]")
		return nil
	}
	words := List(r, path, raw, r.Text)
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

// Span reads a duration from least to most.
func (r *Reader) Span(least, most time.Duration) func(path string, raw json.RawMessage) time.Duration {
	return func(path string, raw json.RawMessage) time.Duration {
		var s string
		_ = json.Unmarshal(raw, &s)
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			r.Add(path, "must be a duration from %s to %s, such as 5s", least, most)
		}
		return d
	}
}

// Environment reads variables, which are neither Prewarm's own nor impossible.
func (r *Reader) Environment(path string, raw json.RawMessage) map[string]string {
	env := map[string]string{}
	for name, value := range r.object(path, raw) {
		path := path + "." + name
		switch {
		case !provider.ValidVariable(name):
			r.Add(path, "is not a name for a variable")
		case strings.HasPrefix(name, "PREWARM_"):
			r.Add(path, "names that begin with PREWARM_ are reserved")
		}
		env[name] = r.Text(path, value)
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
