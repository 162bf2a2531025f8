package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// scriptKey is how the executables of GARM's family take the script of a first boot.
const scriptKey = "runner_install_template"

// firstBootScript finds out whether the executable takes a script, and holds that against what Prewarm goes by. One that takes
// it renders it as a template before it makes anything, so that a template which nobody can render fails; one that does not
// makes the workspace. A script that is not taken leaves the executable's own, which installs a runner of a forge that is not
// there, and reports that this has failed.
func firstBootScript(ctx context.Context, t *trial) {
	s, _ := provider.As[provider.Spoken](t.Provider)
	given := s.Spoken().InstallScript != ""
	spec, err := withScript(t.Spec, "{{")
	t.must(err)
	takes := false
	if len(t.Provider.Validate(spec, t.Parameters)) == 0 { // else its schema has no such key
		req := t.request("script")
		req.Spec = spec
		_, err := t.Provider.Create(ctx, req)
		takes = err != nil
		t.must(ctx.Err())
	}
	t.check(
		want(!takes || given, "it takes %s, and is given none: set install_script: %[1]s in the provider's config. Else its "+
			"workspaces install a runner of a forge at their first boot, and no agent can be installed", scriptKey),
		want(!given || takes, "it is given %s, and ignores it: set install_script: none in the provider's config, and leave agent "+
			"out of templates. Its documentation says how to keep it from installing a runner", scriptKey),
	)
}

// withScript is the spec with a template for the first boot.
func withScript(raw json.RawMessage, template string) (json.RawMessage, error) {
	spec := map[string]any{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, xerrors.Errorf("read spec: %w", err)
		}
	}
	extra, _ := spec["extra_specs"].(map[string]any)
	if extra == nil {
		extra = map[string]any{}
	}
	extra[scriptKey] = base64.StdEncoding.EncodeToString([]byte(template))
	spec["extra_specs"] = extra
	out, err := json.Marshal(spec)
	if err != nil {
		return nil, xerrors.Errorf("write spec: %w", err)
	}
	return out, nil
}
