package coder

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// ofAgent says why an attribute or a block of an agent is not carried over; empty: it has nothing that would be missed.
var ofAgent = map[string]string{
	"os": "", "arch": "", "auth": "", "startup_script": "", "startup_script_behavior": "", "api_key_scope": "", "order": "",
	"display_apps": "", "connection_timeout": "", "count": "", "depends_on": "",
	"env":                 "the agent does not set it: put the variables into the container or the machine",
	"dir":                 "commands begin in the home",
	"shutdown_script":     "nothing runs before a workspace is deleted",
	"metadata":            "it is not shown",
	"motd_file":           "it is not shown",
	"troubleshooting_url": "it is not shown",
}

func (r *reader) agent(b *hclsyntax.Block, name string) {
	r.Agent = true
	if r.agents++; r.agents > 1 {
		r.leave(b.DefRange(), name, "a workspace has one agent, and all have its token: leave one")
		return
	}
	if system, known := r.text(b.Body, "os"); known && system != "linux" {
		r.leave(b.Body.Attributes["os"].SrcRange, name+".os", "there is no agent for %s", system)
	}
	if auth, there := b.Body.Attributes["auth"]; there {
		if kind, known := r.text(b.Body, "auth"); !known || kind != "token" {
			r.leave(auth.SrcRange, name+".auth", "an agent shows who it is by its token only: hand it over as CODER_AGENT_TOKEN")
		}
	}
	r.starts(b, name, "startup_script")
	for _, key := range slices.Sorted(maps.Keys(b.Body.Attributes)) {
		if why, known := ofAgent[key]; !known || why != "" {
			r.leave(b.Body.Attributes[key].SrcRange, name+"."+key, "%s", whyNot(why))
		}
	}
	said := map[string]bool{}
	for _, in := range b.Body.Blocks {
		if why, known := ofAgent[in.Type]; (!known || why != "") && !said[in.Type] {
			said[in.Type] = true
			r.leave(in.DefRange(), name+"."+in.Type, "%s", whyNot(why))
		}
	}
}

func whyNot(why string) string {
	if why == "" {
		return "Prewarm has nothing like it"
	}
	return why
}

// starts takes a script that runs when the agent starts.
func (r *reader) starts(b *hclsyntax.Block, name, key string) {
	attribute, there := b.Body.Attributes[key]
	if !there {
		return
	}
	script, known := r.text(b.Body, key)
	switch {
	case !known:
		r.leave(attribute.SrcRange, name+"."+key, "only a run knows what is in it: write on_start of the agent by hand. "+
			"A parameter of the preset is in PARAM_NAME there")
	case strings.TrimSpace(script) != "":
		r.OnStart = append(r.OnStart, script)
	}
}

func (r *reader) script(b *hclsyntax.Block, name string) {
	whys := map[string]string{"cron": "nothing runs by the clock", "run_on_stop": "nothing runs before a workspace is deleted"}
	for _, key := range slices.Sorted(maps.Keys(whys)) {
		if attribute, there := b.Body.Attributes[key]; there {
			if is, known := r.text(b.Body, key); !known || is != "false" {
				r.leave(attribute.SrcRange, name+"."+key, "%s", whys[key])
			}
		}
	}
	if r.isTrue(b.Body, "run_on_start") {
		r.starts(b, name, "script")
	}
}
