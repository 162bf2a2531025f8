package claim

import "fmt"

// OfRunners refuses a claim: the workspaces of the preset are runners, and jobs claim them (P3). The statements that pick a
// workspace pass over such presets, so it costs no other claim anything to find out.
type OfRunners struct{ Template, Preset, Forge string }

func (e *OfRunners) Error() string {
	return fmt.Sprintf("preset %s/%s is of runners: jobs of forge %s claim them", e.Template, e.Preset, e.Forge)
}
