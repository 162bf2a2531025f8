package docker

import (
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// options are what the engine is asked for.
func (p *Provider) options(
	req provider.CreateRequest, s spec, image image.InspectResponse, replaces string,
) (client.ContainerCreateOptions, error) {
	grace := int(s.stopGrace / time.Second)
	config := &container.Config{
		Hostname: req.Name, Image: s.image, Entrypoint: s.entrypoint, Cmd: s.command, User: s.user, WorkingDir: s.workingDir,
		Env: environment(req, s), Labels: labels(req, s, replaces), StopTimeout: &grace, ExposedPorts: network.PortSet{},
	}
	if h := s.health; h != nil {
		config.Healthcheck = &container.HealthConfig{
			Test: append([]string{"CMD"}, h.command...), Interval: h.interval, Timeout: h.timeout, StartPeriod: h.startPeriod,
			Retries: h.retries,
		}
	}
	host := &container.HostConfig{
		Resources: container.Resources{
			NanoCPUs: int64(s.cpus * 1e9), Memory: s.memory, MemorySwap: s.memory, PidsLimit: &s.pids,
		},
		Mounts: mounts(req, s), PortBindings: network.PortMap{},
	}
	switch {
	case s.privileges != nil:
		s.privileges.confine(host)
	case req.Defaults > 0:
		(&Privileges{}).confine(host)
	}
	if s.init {
		host.Init = &s.init
	}
	if len(s.networks) > 0 {
		host.NetworkMode = container.NetworkMode(s.networks[0])
	}
	if p.rotates { // what a workspace says must not fill the disk
		host.LogConfig.Config = map[string]string{"max-size": "10m", "max-file": "2"}
	}
	address := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if p.config.PublishAddress != "" {
		address = netip.MustParseAddr(p.config.PublishAddress) // checked
	}
	for _, port := range s.ports {
		config.ExposedPorts[port] = struct{}{}
		host.PortBindings[port] = []network.PortBinding{{HostIP: address}} // at a port that is free
	}
	if req.Callback.Token != "" {
		if err := p.underAgent(req, s, image, config, host); err != nil {
			return client.ContainerCreateOptions{}, xerrors.Errorf("prepare agent: %w", err)
		}
	}
	return client.ContainerCreateOptions{Name: req.Name, Config: config, HostConfig: host}, nil
}

// environment is what the container gets over what its image says: parameters, then the spec, then what it is.
func environment(req provider.CreateRequest, s spec) []string {
	is := provider.Identity(req.Name, req.Tags, req.Template, req.Preset)
	return provider.Environ(provider.Environment(req.Parameters, s.environment, is))
}

func mounts(req provider.CreateRequest, s spec) []mount.Mount {
	var all []mount.Mount
	for _, v := range s.volumes {
		m := mount.Mount{Target: v.path, Type: mount.TypeVolume, ReadOnly: v.readOnly}
		switch {
		case v.bind != "":
			m.Type, m.Source = mount.TypeBind, v.bind
		case v.name != "": // the template's own, in one organization of one installation; none of these names has a dot
			m.Source = strings.Join([]string{
				"prewarm", req.Tags.Installation.String(), req.Organization, req.Template, v.name,
			}, ".")
		case v.tmpfs != 0:
			m.Type, m.TmpfsOptions = mount.TypeTmpfs, &mount.TmpfsOptions{SizeBytes: v.tmpfs, Mode: os.ModeSticky | 0o777}
		}
		all = append(all, m)
	}
	return all
}
