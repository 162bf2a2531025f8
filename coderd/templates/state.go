package templates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A state is what a row says of a template, a preset or a provider, in the units of a file. As JSON it is the record of a change.
// Its fields have tags: `file` is the name of the setting in a file, such as "rollout.max_surge"; `default` is its value where a
// file leaves it out, if that is not the zero value; `none` is what a change shows for nil. So the list of settings is written once.

// field is a setting before and after.
type field struct {
	name       string
	old, fresh string
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

// differences tells which settings of two states differ. One that is embedded has its settings next to the others; the settings
// of one that is missing are empty.
func differences[S any](old, fresh S) []string {
	return differ("", reflect.ValueOf(old), reflect.ValueOf(fresh))
}

func differ(within string, old, fresh reflect.Value) []string {
	var told []string
	for i := range old.NumField() {
		tags := old.Type().Field(i)
		name, isSetting := tags.Tag.Lookup("file")
		o, f := old.Field(i), fresh.Field(i)
		if !isSetting {
			if tags.Anonymous {
				told = append(told, differ(within, o, f)...)
			}
			continue
		}
		switch _, isText := o.Interface().(fmt.Stringer); {
		case o.Kind() == reflect.Map:
			told = append(told, mapFields(name, o.Interface().(map[string]string), f.Interface().(map[string]string))...)
		case !isText && o.Type().Kind() == reflect.Struct:
			told = append(told, differ(join(within, name), o, f)...)
		case !isText && o.Kind() == reflect.Pointer && o.Type().Elem().Kind() == reflect.Struct:
			told = append(told, differ(join(within, name), orZeroOf(o), orZeroOf(f))...)
		default:
			told = append(told, fields(field{join(within, name), textOf(o, tags), textOf(f, tags)})...)
		}
	}
	return told
}

// orZeroOf is what a pointer points to.
func orZeroOf(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

// textOf is the value of a setting for a reader; empty for none.
func textOf(v reflect.Value, tags reflect.StructField) string {
	switch x := v.Interface().(type) {
	case json.RawMessage:
		return string(x)
	case fmt.Stringer:
		return x.String()
	}
	if v.Kind() != reflect.Pointer {
		return fmt.Sprint(v.Interface())
	}
	if v.IsNil() {
		return tags.Tag.Get("none")
	}
	return fmt.Sprint(v.Elem().Interface())
}

// put writes the settings of a state, without those at their defaults. What is embedded is left to the caller.
func (o object) put(state any) {
	v := reflect.ValueOf(state)
	for i := range v.NumField() {
		tags, value := v.Type().Field(i), v.Field(i)
		name, isSetting := tags.Tag.Lookup("file")
		if !isSetting || value.Kind() == reflect.Map && value.Len() == 0 {
			continue
		}
		usual, hasUsual := tags.Tag.Lookup("default")
		if text := textOf(value, tags); text == "" || hasUsual && text == usual || !hasUsual && value.IsZero() {
			continue
		}
		in := o
		if group, within, ok := strings.Cut(name, "."); ok {
			if o[group] == nil {
				o[group] = object{}
			}
			in, name = o[group].(object), within
		}
		in[name] = value.Interface()
		if w, ok := value.Interface().(interface{ inFile() any }); ok {
			in[name] = w.inFile()
		}
	}
}

// jsonFields tells what differs between two JSON objects, by their keys.
func jsonFields(prefix string, old, fresh json.RawMessage) []string {
	var before, after map[string]json.RawMessage
	_ = json.Unmarshal(old, &before) // what is no object has no keys
	_ = json.Unmarshal(fresh, &after)
	var told []string
	for _, key := range keysOf(before, after) {
		o, f := apart(unescaped(string(before[key])), unescaped(string(after[key])))
		told = append(told, fields(field{prefix + "." + key, o, f})...)
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

// agentFields lists what differs between two agents. One that is added or removed is listed as such, with its settings.
func agentFields(old, fresh json.RawMessage) []string {
	return append(fields(field{"agent", fmt.Sprint(old != nil), fmt.Sprint(fresh != nil)}), jsonFields("agent", old, fresh)...)
}

// mapFields tells what differs between two sets of parameters.
func mapFields(prefix string, old, fresh map[string]string) []string {
	quoted := func(m map[string]string, key string) string {
		value, has := m[key]
		if !has {
			return ""
		}
		return quote(value)
	}
	var told []string
	for _, key := range keysOf(old, fresh) {
		if before, after := quoted(old, key), quoted(fresh, key); before != after {
			told = append(told, fmt.Sprintf("%s.%s: %s -> %s", prefix, key, orNone(before), orNone(after)))
		}
	}
	return told
}

// keysOf is the keys of both, sorted.
func keysOf[V any](a, b map[string]V) []string {
	both := maps.Clone(a)
	if both == nil {
		return slices.Sorted(maps.Keys(b))
	}
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

// mostShown is how many characters of a value are shown.
const mostShown = 60

// shown is a value for a reader: short, and never empty.
func shown(s string) string {
	if r := []rune(s); len(r) > mostShown {
		return string(r[:mostShown]) + "…"
	}
	return orNone(s)
}

func orNone(s string) string { return cmp.Or(s, "(none)") }
