package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// choosePreset finds the preset for a claim that says by which parameters: all of the preset's own must be among them,
// with the same values, and of several such presets it is the one with most. Without parameters it is the template's only
// preset. why is the reason of a miss: it names the parameters that differ from those of the nearest preset.
func (s *server) choosePreset(ctx context.Context, who auth.Identity, in sdk.ClaimRequest) (c chosenPreset, why string, err error) {
	rows, err := viewsdb.New(s.Store).PresetParameters(ctx, viewsdb.PresetParametersParams{
		OrganizationID: who.OrganizationID, Template: in.Template,
	})
	if err != nil {
		return c, "", xerrors.Errorf("read presets: %w", err)
	}
	if len(rows) == 0 { // says which templates there are
		_, _, err := s.findPreset(ctx, who, in.Template, "")
		return c, "", err
	}
	var presets []candidate
	for _, row := range rows {
		if row.Runners { // these are claimed by jobs
			continue
		}
		p := candidate{name: row.Name}
		if err := json.Unmarshal(row.Parameters, &p.parameters); err != nil {
			return c, "", xerrors.Errorf("decode parameters: %w", err)
		}
		presets = append(presets, p)
	}
	if len(presets) == 0 {
		return c, "", auth.Refuse(auth.ErrInvalid, "template %s has presets of runners only: jobs of their forges claim them", in.Template)
	}
	return choose(in.Template, presets, in.PresetParameters)
}

type candidate struct {
	name       string
	parameters map[string]string
}

// choose decides among the presets of a template.
func choose(template string, presets []candidate, wanted map[string]string) (c chosenPreset, why string, err error) {
	if len(wanted) == 0 {
		if len(presets) == 1 {
			return chosenPreset{name: presets[0].name}, "", nil
		}
		return c, "", auth.Refuse(auth.ErrInvalid, "template %s has the presets %s: name one, or give the parameters that "+
			"choose one", template, namesOf(presets))
	}
	var best []candidate
	var nearest candidate
	found, least := false, 0 // the nearest has the fewest that differ, and of those alike most of those that are given
	for _, p := range presets {
		differ := len(differences(p, wanted))
		if len(p.parameters) == 0 {
			continue // it would match anything
		}
		if score := differ*2*maxClaimParameters - shared(p, wanted); !found || score < least {
			nearest, found, least = p, true, score
		}
		switch {
		case differ > 0:
		case len(best) > 0 && len(p.parameters) < len(best[0].parameters):
		case len(best) > 0 && len(p.parameters) == len(best[0].parameters):
			best = append(best, p)
		default:
			best = []candidate{p}
		}
	}
	switch {
	case len(best) > 1:
		return c, "", auth.Refuse(auth.ErrConflict, "the presets %s of template %s all have these parameters: name one",
			namesOf(best), template)
	case len(best) == 1:
		rest := maps.Clone(wanted)
		for name := range best[0].parameters {
			delete(rest, name)
		}
		return chosenPreset{name: best[0].name, rest: rest}, "", nil
	case !found:
		return c, fmt.Sprintf("no preset of template %s has parameters: name one of %s", template, namesOf(presets)), nil
	}
	return c, fmt.Sprintf("no preset of template %s has these parameters; the nearest is %s: %s", template, nearest.name,
		strings.Join(differences(nearest, wanted), ", ")), nil
}

// shared is how many of the wanted parameters the preset has, with whatever value.
func shared(p candidate, wanted map[string]string) (n int) {
	for name := range wanted {
		if _, has := p.parameters[name]; has {
			n++
		}
	}
	return n
}

// differences says what of a preset's parameters is not as wanted.
func differences(p candidate, wanted map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.parameters)) {
		value, given := wanted[name]
		switch {
		case !given:
			all = append(all, fmt.Sprintf("it also has %s=%s", name, p.parameters[name]))
		case value != p.parameters[name]:
			all = append(all, fmt.Sprintf("its %s is %s, not %s", name, p.parameters[name], value))
		}
	}
	return all
}

func namesOf(presets []candidate) string {
	names := lists.Of(presets, func(p candidate) string { return p.name })
	return strings.Join(names, ", ")
}
