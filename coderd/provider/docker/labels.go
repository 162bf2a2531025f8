package docker

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	labelInstallation = "dev.prewarm.installation"
	labelWorkspace    = "dev.prewarm.workspace"
	labelIncarnation  = "dev.prewarm.incarnation"
	labelName         = "dev.prewarm.name"
	labelOrganization = "dev.prewarm.organization"
	labelTemplate     = "dev.prewarm.template"
	labelPreset       = "dev.prewarm.preset"
	labelReadiness    = "dev.prewarm.readiness"
	labelReplaces     = "dev.prewarm.replaces"
)

func labels(req provider.CreateRequest, s spec, replaces string) map[string]string {
	l := map[string]string{
		labelInstallation: req.Tags.Installation.String(),
		labelWorkspace:    req.Tags.WorkspaceID.String(),
		labelIncarnation:  strconv.Itoa(int(req.Tags.Incarnation)),
		labelName:         req.Name,
		labelOrganization: req.Organization,
		labelTemplate:     req.Template,
		labelPreset:       req.Preset,
		labelReadiness:    s.readiness.String(),
	}
	if replaces != "" {
		l[labelReplaces] = replaces
	}
	return l
}

// tagsOf reads the tags. Without all of them a container is not ours.
func tagsOf(l map[string]string) (provider.Tags, bool) {
	return provider.TagsOf(l[labelInstallation], l[labelWorkspace], l[labelIncarnation])
}

// found is a container of ours.
type found struct {
	container.Summary
	tags provider.Tags
	name string // the workspace's
}

func foundIn(all []container.Summary) []found {
	var ours []found
	for _, c := range all {
		tags, ok := tagsOf(c.Labels)
		if !ok {
			continue
		}
		f := found{Summary: c, tags: tags, name: c.Labels[labelName]}
		if f.name == "" && len(c.Names) > 0 { // somebody tagged it by hand
			f.name = strings.TrimPrefix(c.Names[0], "/")
		}
		ours = append(ours, f)
	}
	slices.SortFunc(ours, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(b.tags.Incarnation, a.tags.Incarnation), cmp.Compare(a.ID, b.ID))
	})
	return ours
}

// instance is what the outside sees of a container. It is made of what a listing says, so that a look-up says the same.
func (f found) instance() provider.Instance {
	i := provider.Instance{
		ProviderID: f.ID, Name: f.name, Tags: f.tags, Addresses: f.addresses(), CreatedAt: time.Unix(f.Created, 0).UTC(),
		Environment: provider.Identity(f.name, f.tags, f.Labels[labelTemplate], f.Labels[labelPreset]), KnownAs: []string{f.ID},
	}
	if replaces := f.Labels[labelReplaces]; replaces != "" {
		i.KnownAs = append(i.KnownAs, replaces)
	}
	for _, port := range f.published() {
		i.Environment[fmt.Sprintf("PREWARM_PORT_%d", port.PrivatePort)] = hostPort(port)
	}
	switch f.State {
	case container.StateRunning:
		i.Status = provider.StatusRunning
	case container.StateExited:
		i.Status = provider.StatusStopped
	case container.StateDead:
		i.Status, i.Fault = provider.StatusError, "the engine could not remove it (dead)"
	case container.StatePaused:
		i.Status, i.Fault = provider.StatusError, "somebody paused it"
	case container.StateCreated, container.StateRestarting, container.StateRemoving:
		i.Status = provider.StatusUnknown
	default:
		i.Status = provider.StatusUnknown
	}
	return i
}

// published are the ports that the engine's machine takes connections at, each once, by their number inside.
func (f found) published() []container.PortSummary {
	ports := slices.DeleteFunc(slices.Clone(f.Ports), func(p container.PortSummary) bool { return p.PublicPort == 0 })
	slices.SortFunc(ports, func(a, b container.PortSummary) int {
		return cmp.Or(cmp.Compare(a.PrivatePort, b.PrivatePort), cmp.Compare(a.Type, b.Type), a.IP.Compare(b.IP))
	})
	return slices.CompactFunc(ports, func(a, b container.PortSummary) bool {
		return a.PrivatePort == b.PrivatePort && a.Type == b.Type
	})
}

func hostPort(p container.PortSummary) string {
	return net.JoinHostPort(p.IP.String(), strconv.Itoa(int(p.PublicPort)))
}

// addresses are the published ports, and the container's own address in each of its networks.
func (f found) addresses() []provider.Address {
	all := lists.Of(f.published(), func(port container.PortSummary) provider.Address {
		return provider.Address{Type: port.Type, Address: hostPort(port)}
	})
	for _, ip := range f.ips() {
		all = append(all, provider.Address{Type: "ip", Address: ip})
	}
	return all
}

func (f found) ips() []string {
	var all []string
	if f.NetworkSettings == nil || f.State != container.StateRunning {
		return nil
	}
	for _, endpoint := range f.NetworkSettings.Networks {
		if endpoint != nil && endpoint.IPAddress.IsValid() {
			all = append(all, endpoint.IPAddress.String())
		}
	}
	slices.Sort(all)
	return all
}
