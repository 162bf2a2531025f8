package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// fit reports all that a value of Kubernetes' API has and its type does not, each at its own path: a decoder stops at the
// first, and does not say in which item of a list it is.
func (p *reader) fit(path string, raw json.RawMessage, into any) {
	p.fitType(path, raw, reflect.TypeOf(into))
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (p *reader) fitType(path string, raw json.RawMessage, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return // as if it were left out
	}
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
		p.fitLeaf(path, raw, t)
	case t.Kind() == reflect.Struct:
		fields := maps.Collect(fieldsOf(t))
		for key, value := range p.members(path, raw) {
			if field, known := fields[key]; known {
				p.fitType(path+"."+key, value, field)
			} else {
				p.Add(path+"."+key, "%s%s", "is not a field of a "+t.Name(), alike(key, fields))
			}
		}
	case t.Kind() == reflect.Map:
		for key, value := range p.members(path, raw) {
			p.fitType(path+"."+key, value, t.Elem())
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			p.Add(path, "must be a list")
		}
		for i, item := range items {
			p.fitType(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
		}
	default:
		p.fitLeaf(path, raw, t)
	}
}

// fitLeaf is for what is no mapping and no list.
func (p *reader) fitLeaf(path string, raw json.RawMessage, t reflect.Type) {
	err := json.Unmarshal(raw, reflect.New(t).Interface())
	if err == nil {
		return
	}
	switch t.Kind() {
	case reflect.String:
		p.Add(path, "must be a string: put %s in quotes", bytes.TrimSpace(raw))
	case reflect.Bool:
		p.Add(path, "must be true or false")
	case reflect.Int, reflect.Int32, reflect.Int64:
		p.Add(path, "must be a whole number")
	default:
		p.Add(path, "is not a %s: %v", t.Name(), err)
	}
}

// members are those of a mapping, in order of their keys.
func (p *reader) members(path string, raw json.RawMessage) iter.Seq2[string, json.RawMessage] {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		p.Add(path, "must be a mapping")
	}
	return func(yield func(string, json.RawMessage) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if !yield(key, all[key]) {
				return
			}
		}
	}
}

// fieldsOf are the fields of a struct by their names in JSON. What is embedded stands among them.
func fieldsOf(t reflect.Type) iter.Seq2[string, reflect.Type] {
	return func(yield func(string, reflect.Type) bool) {
		for field := range t.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
				for name, inner := range fieldsOf(field.Type) {
					if !yield(name, inner) {
						return
					}
				}
			} else if name != "" && name != "-" && !yield(name, field.Type) {
				return
			}
		}
	}
}

// alike is a hint at the field that was meant, where one differs in the case of its letters or in few of them.
func alike(key string, fields map[string]reflect.Type) string {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if strings.EqualFold(name, key) || strings.EqualFold(name, key+"s") || strings.EqualFold(name+"s", key) {
			return ": write " + name
		}
	}
	return ""
}
