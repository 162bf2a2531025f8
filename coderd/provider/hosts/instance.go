package hosts

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// environment is what the workspace's scripts and commands get beside that of the machine's user. What the template sets
// goes over parameters, identity over all.
func environment(m *Host, s spec, req provider.CreateRequest) map[string]string {
	is := provider.Identity(req.Name, req.Tags, req.Template, req.Preset)
	is["PREWARM_ORGANIZATION"] = req.Organization
	is["PREWARM_MACHINE"] = m.Name
	return provider.Environment(req.Parameters, s.environment, is)
}

// instance is a workspace as its machine describes it.
func instance(m *Host, a answer) provider.Instance {
	i := provider.Instance{
		ProviderID: m.Name, Name: a.name, Tags: a.tags, CreatedAt: a.created,
		Addresses: []provider.Address{{Type: "ssh", Address: m.User + "@" + m.place()}},
		Environment: map[string]string{
			"PREWARM_WORKSPACE": a.name, "PREWARM_WORKSPACE_ID": a.tags.WorkspaceID.String(),
			"PREWARM_TEMPLATE": a.template, "PREWARM_PRESET": a.preset, "PREWARM_MACHINE": m.Name,
			"PREWARM_SSH_HOST": m.Address, "PREWARM_SSH_PORT": strconv.Itoa(m.Port), "PREWARM_SSH_USER": m.User,
			"PREWARM_SSH_HOST_KEY": strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.pinned[0]))),
			"PREWARM_DIR":          a.dir + "/workspace",
		},
	}
	switch a.phase {
	case phasePreparing, phasePrepared:
		i.Status = provider.StatusRunning
	case phaseFailed, phaseDirty:
		i.Status, i.Fault = provider.StatusError, fmt.Sprintf("%s: %s", a.phase, a.fault)
	default:
		i.Status = provider.StatusUnknown // on its way out, or to the next incarnation
	}
	return i
}
