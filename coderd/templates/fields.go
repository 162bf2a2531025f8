package templates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// field is a setting before and after.
type field struct {
	name       string
	old, fresh any
}

// fields tells those that differ, as "name: old -> new".
func fields(all ...field) []string {
	var told []string
	for _, f := range all {
		if f.old != f.fresh {
			told = append(told, fmt.Sprintf("%s: %s -> %s", f.name, shown(f.old), shown(f.fresh)))
		}
	}
	return told
}

// jsonFields tells what differs between two JSON objects, by their keys.
func jsonFields(prefix string, old, fresh json.RawMessage) []string {
	var before, after map[string]json.RawMessage
	_ = json.Unmarshal(old, &before) // what is no object has no keys
	_ = json.Unmarshal(fresh, &after)
	keys := map[string]bool{}
	for key := range before {
		keys[key] = true
	}
	for key := range after {
		keys[key] = true
	}
	var told []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if o, f := string(before[key]), string(after[key]); o != f {
			o, f = apart(unescaped(o), unescaped(f))
			told = append(told, fmt.Sprintf("%s.%s: %s -> %s", prefix, key, shown(o), shown(f)))
		}
	}
	return told
}

// unescaped is JSON as people write it: && is not \u0026\u0026.
func unescaped(raw string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	var value any
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil || encoder.Encode(value) != nil {
		return raw
	}
	return strings.TrimSpace(b.String())
}

// apart leaves out what two long values begin with alike, so that shown has the difference.
func apart(old, fresh string) (string, string) {
	o, f := []rune(old), []rune(fresh)
	same := 0
	for same < min(len(o), len(f)) && o[same] == f[same] {
		same++
	}
	const context = 15
	if skip := same - context; skip > 0 && max(len(o), len(f)) > mostShown {
		return "…" + string(o[skip:]), "…" + string(f[skip:])
	}
	return old, fresh
}

// agentFields tells what differs between two agents; one that comes or goes is told as such, with its settings.
func agentFields(old, fresh json.RawMessage) []string {
	var told []string
	if (old == nil) != (fresh == nil) {
		told = fields(field{"agent", old != nil, fresh != nil})
	}
	return append(told, jsonFields("agent", old, fresh)...)
}

// mapFields tells what differs between two sets of parameters.
func mapFields(prefix string, old, fresh map[string]string) []string {
	both := maps.Clone(old)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, fresh)
	var told []string
	for _, key := range slices.Sorted(maps.Keys(both)) {
		o, had := old[key]
		f, has := fresh[key]
		if had && has && o == f {
			continue
		}
		before, after := "(none)", "(none)"
		if had {
			before = quote(o)
		}
		if has {
			after = quote(f)
		}
		told = append(told, fmt.Sprintf("%s.%s: %s -> %s", prefix, key, before, after))
	}
	return told
}

// mostShown is how many characters of a value are shown.
const mostShown = 60

// shown is a value for a reader: short, and never empty.
func shown(v any) string {
	s := fmt.Sprint(v)
	if s == "" {
		return "(none)"
	}
	if r := []rune(s); len(r) > mostShown {
		return string(r[:mostShown]) + "…"
	}
	return s
}
