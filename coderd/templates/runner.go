package templates

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Limits of what a runner may say of itself.
const (
	maxLabels = 100
	maxLabel  = 256 // characters
	maxGroup  = 256 // characters
	// defaultRegistration is for how long a runner that is up may be unknown to its forge (A3).
	defaultRegistration = 10 * time.Minute
)

// Runner makes the prebuilds of a preset runners of a forge (P3, P4).
type Runner struct {
	Forge   string   // the entity's name
	Labels  []string // as forge.Labels makes them
	Group   string   // empty: the forge's default
	Maximum *int32   // of runners, busy or not; nil: no limit of its own
	// RegistrationTimeout is how long one may take from being up to being seen at its forge (A3).
	RegistrationTimeout time.Duration

	at, forgeAt, groupAt, maximumAt Pos
}

func (d decoder) runner(n ast.Node) *Runner {
	r := Runner{at: position(n), RegistrationTimeout: defaultRegistration}
	d.object(n, "runner",
		setting{key: "forge", required: true, read: func(n ast.Node) {
			r.Forge, r.forgeAt = d.name(n, "name of a forge"), position(n)
		}},
		setting{key: "labels", required: true, read: func(n ast.Node) { r.Labels = d.labels(n) }},
		setting{key: "group", read: func(n ast.Node) {
			r.Group, r.groupAt = d.text(n, "group"), position(n)
			d.plainText(n, "group", r.Group, maxGroup)
		}},
		setting{key: "maximum", read: func(n ast.Node) {
			limit := d.integer(n, "maximum", 1, MaxInstances, ": leave it out for no limit of its own")
			r.Maximum, r.maximumAt = &limit, position(n)
		}},
		d.durationInto(&r.RegistrationTimeout, "registration_timeout", maxBoot))
	return &r
}

// labels reads what jobs may ask for.
func (d decoder) labels(n ast.Node) []string {
	before := len(d.problems.List)
	var labels []string
	d.list(n, "labels", func(n ast.Node) {
		label := d.text(n, "a label")
		if strings.TrimSpace(label) == "" && len(d.problems.List) == before {
			d.problems.add(position(n), "a label is empty: jobs could not ask for it; leave it out")
		}
		if strings.Contains(label, ",") {
			d.problems.add(position(n), "label %s has a comma, by which runners tell labels apart: write two labels", quote(label))
		}
		d.plainText(n, "label", label, maxLabel)
		labels = append(labels, label)
	})
	if len(d.problems.List) > before {
		return nil
	}
	labels = forge.Labels(labels)
	switch {
	case len(labels) == 0:
		d.problems.add(position(n), "labels is empty: no job could ask for such a runner; write what its jobs have in runs-on, "+
			"such as [self-hosted, linux]")
	case len(labels) > maxLabels:
		d.problems.add(position(n), "labels has %d entries: at most %d are possible", len(labels), maxLabels)
	}
	return labels
}

// plainText notes a text that is too long or has characters that no screen shows.
func (d decoder) plainText(n ast.Node, what, s string, most int) {
	switch {
	case len([]rune(s)) > most:
		d.problems.add(position(n), "%s has %d characters: at most %d are possible", what, len([]rune(s)), most)
	case strings.ContainsFunc(s, unicode.IsControl):
		d.problems.add(position(n), "%s %s has a character that cannot be seen: remove it", what, quote(s))
	}
}

// checkRunner notes what does not go with runners in a preset.
func (d decoder) checkRunner(p Preset) {
	r, pool := p.Runner, p.Prebuilds
	switch {
	case r == nil:
	case pool == nil:
		d.problems.add(r.at, "preset %q has a runner, but no prebuilds: add prebuilds with the least that are to be idle. With "+
			"instances 0 there are runners only for jobs that wait", p.Name)
	case pool.AllMachines:
		d.problems.add(pool.instancesAt, "instances is all, but how many runners there are is by their jobs: give the least that "+
			"are to be idle")
	case pool.Standby.Running != "":
		d.problems.add(pool.Standby.at, "standby does not go with runner: a runner that is stopped is given no job")
	case r.Maximum != nil && *r.Maximum < pool.Instances:
		d.problems.add(r.maximumAt, "maximum of the runner is %d, but instances is %d: that many could never be idle",
			*r.Maximum, pool.Instances)
	case r.Maximum != nil && pool.Autosize != nil && pool.Autosize.Max > int(*r.Maximum):
		d.problems.add(r.maximumAt, "maximum of the runner is %d, but max of autosize is %d: that many could never be idle",
			*r.Maximum, pool.Autosize.Max)
	case r.Maximum != nil && scheduled(pool.Schedule) > int(*r.Maximum):
		d.problems.add(r.maximumAt, "maximum of the runner is %d, but the schedule has %d instances: that many could never be "+
			"idle", *r.Maximum, scheduled(pool.Schedule))
	}
}

// scheduled is the most that a schedule says; 0 for none.
func scheduled(schedule json.RawMessage) (most int) {
	var s prebuilds.StoredSchedule
	if json.Unmarshal(schedule, &s) != nil {
		return 0
	}
	for _, r := range s.Ranges {
		most = max(most, r.Instances)
	}
	return most
}

// checkRunners notes what does not go with runners in a template.
func (d decoder) checkRunners(t *Template) {
	people := slices.ContainsFunc(t.Presets, func(p Preset) bool { return p.Runner == nil })
	claims := t.Claims.Lease > 0 || t.Claims.Max != nil || t.Claims.MaxPerUser != nil
	for _, p := range t.Presets {
		switch {
		case p.Runner == nil:
		case t.Reuse.On:
			d.problems.add(p.Runner.at, "preset %q has a runner, but the template has reuse: a runner takes one job and goes; leave "+
				"reuse out", p.Name)
		case claims && !people:
			d.problems.add(p.Runner.at, "preset %q has a runner, as all presets have, but the template has claims, which hold for claims "+
				"of people. A job has no lease and no quota. Leave claims out, and give the runner a maximum", p.Name)
		}
	}
}

// runnerState is what a preset's row says of its runners.
type runnerState struct {
	Forge   string `json:"forge" file:"forge"`
	Labels  labels `json:"labels" file:"labels"`
	Group   string `json:"group,omitempty" file:"group"`
	Maximum *int32 `json:"maximum,omitempty" file:"maximum" none:"no limit"`

	RegistrationTimeout span `json:"registration_timeout,omitempty" file:"registration_timeout"`
}

type labels []string

func (l labels) String() string { return strings.Join(l, ", ") }

func (s *runnerState) inFile() any {
	short := *s
	if short.RegistrationTimeout == spanOf(seconds(defaultRegistration)) {
		short.RegistrationTimeout = ""
	}
	return &short
}

// registersAs says whether runners of both are the same to their forge; nil is none.
func (s *runnerState) registersAs(o *runnerState) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Forge == o.Forge && s.Group == o.Group && slices.Equal(s.Labels, o.Labels)
}

// tellApart says of the forge before that it is another one than the one of the same name now.
func (s *runnerState) tellApart(before, now *RunnerOf) {
	if before != nil && now != nil && before.Entity != now.Entity {
		s.Forge += " (deleted)"
	}
}
