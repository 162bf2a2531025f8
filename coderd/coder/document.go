package coder

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/xerrors"
)

// As is what a document says that no template of Coder does.
type As struct {
	Name     string // of the template
	Module   string // the path of the directory, from where the document will be
	Provider string // of kind terraform, which the server has
	Declare  bool   // has the document declare that provider
}

// Document is the template as a configuration file.
func (t *Template) Document(as As) (string, error) {
	template := yaml.MapSlice{{Key: "name", Value: as.Name}, {Key: "provider", Value: as.Provider}}
	if t.Agent {
		agent := yaml.MapSlice{}
		if start := onStart(t.OnStart); start != nil {
			agent = yaml.MapSlice{{Key: "on_start", Value: start}}
		}
		template = append(template, yaml.MapItem{Key: "agent", Value: agent})
	}
	presets := make([]yaml.MapSlice, len(t.Presets))
	for i, p := range t.Presets {
		presets[i] = p.document()
	}
	template = append(template, yaml.MapItem{Key: "spec", Value: yaml.MapSlice{{Key: "module", Value: as.Module}}},
		yaml.MapItem{Key: "presets", Value: presets})
	document := yaml.MapSlice{}
	if as.Declare {
		document = append(document, yaml.MapItem{Key: "providers", Value: []yaml.MapSlice{
			{{Key: "name", Value: as.Provider}, {Key: "kind", Value: "terraform"}},
		}})
	}
	return write(append(document, yaml.MapItem{Key: "templates", Value: []yaml.MapSlice{template}}))
}

func (p Preset) document() yaml.MapSlice {
	preset := yaml.MapSlice{{Key: "name", Value: p.Name}}
	if len(p.Parameters) > 0 {
		parameters := yaml.MapSlice{}
		for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
			parameters = append(parameters, yaml.MapItem{Key: name, Value: p.Parameters[name]})
		}
		preset = append(preset, yaml.MapItem{Key: "parameters", Value: parameters})
	}
	if p.Prebuilds == nil {
		return preset
	}
	pool := yaml.MapSlice{{Key: "instances", Value: p.Prebuilds.Instances}}
	if p.Prebuilds.TTL > 0 {
		pool = append(pool, yaml.MapItem{Key: "ttl", Value: duration(p.Prebuilds.TTL)})
	}
	if len(p.Prebuilds.Ranges) > 0 {
		schedule := yaml.MapSlice{}
		if p.Prebuilds.Timezone != "" {
			schedule = append(schedule, yaml.MapItem{Key: "timezone", Value: p.Prebuilds.Timezone})
		}
		ranges := make([]yaml.MapSlice, len(p.Prebuilds.Ranges))
		for i, at := range p.Prebuilds.Ranges {
			ranges[i] = yaml.MapSlice{{Key: "cron", Value: at.Cron}, {Key: "instances", Value: at.Instances}}
		}
		pool = append(pool, yaml.MapItem{Key: "schedule", Value: append(schedule, yaml.MapItem{Key: "ranges", Value: ranges})})
	}
	return append(preset, yaml.MapItem{Key: "prebuilds", Value: pool})
}

var zeroes = regexp.MustCompile(`([hm])0[ms](0s)?$`)

// duration is a number of seconds as people write it.
func duration(seconds int) string {
	return zeroes.ReplaceAllString((time.Duration(seconds) * time.Second).String(), "$1")
}

var ofBash = regexp.MustCompile(`^#!\S*(/|env )bash\b`)

// onStart runs scripts one after the other, by the shell that they name; nil for none.
func onStart(scripts []string) []string {
	shell := "sh"
	if slices.ContainsFunc(scripts, ofBash.MatchString) {
		shell = "bash"
	}
	switch len(scripts) {
	case 0:
		return nil
	case 1:
		return []string{shell, "-c", scripts[0]}
	}
	return append([]string{shell, "-c", `for script do ` + shell + ` -c "$script" || exit; done`, "start"}, scripts...)
}

// write writes texts of several lines as blocks, where the library reads them back as they are.
func write(document yaml.MapSlice) (string, error) {
	var text []byte
	for _, options := range [][]yaml.EncodeOption{{yaml.UseLiteralStyleIfMultiline(true)}, {yaml.JSON()}} {
		var err error
		if text, err = yaml.MarshalWithOptions(document, options...); err != nil {
			return "", xerrors.Errorf("write configuration as YAML: %w", err)
		}
		var meant, read any
		plain, err := yaml.MarshalWithOptions(document, yaml.JSON())
		if err == nil {
			err = yaml.Unmarshal(plain, &meant)
		}
		if err == nil && yaml.Unmarshal(text, &read) == nil && reflect.DeepEqual(meant, read) {
			return string(text), nil
		}
	}
	return "", xerrors.New("write configuration as YAML: it would be read as something else")
}
