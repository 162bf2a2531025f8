package docker

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// What a container mounts of the engine's machine is looked at before each create and each start. The kernel follows
// symbolic links in the source of a mount, so whoever may write a directory above a source decides what is mounted. Hence
// no workspace may write a directory of the machine: what workspaces share is a volume that the engine keeps, whose own
// directory none of them sees. And a source that is reached through a link is refused.

// never are places that nobody may mount, nor anything below them or above them.
var never = []string{
	"/proc", "/sys", "/dev", "/run/docker.sock", "/run/containerd", "/run/podman", "/var/lib/docker", "/var/lib/containerd",
}

// refused says why a directory of the machine may not be mounted; empty where it may.
func (c Config) refused(source string) string {
	for _, place := range append(append([]string{c.socket()}, never...), c.private...) {
		place = resolved(place)
		switch {
		case place == "" || place == ".":
		case within(place, source):
			return source + " is, or is in, " + place + ", which no workspace may reach"
		case within(source, place):
			return source + " contains " + place + ", which no workspace may reach"
		}
	}
	if !c.local() {
		return "" // it is another machine's
	}
	switch is, err := filepath.EvalSymlinks(source); {
	case errors.Is(err, fs.ErrNotExist):
		return source + " is not there: create it first"
	case err != nil:
		return source + " cannot be looked at: " + err.Error()
	case is != source:
		return source + " is reached through a symbolic link: write " + is + ", if that is what you want to mount"
	}
	return ""
}

// local says whether the engine's machine is this one.
func (c Config) local() bool { return c.socket() != "" }

// socket is where the engine listens on this machine; empty where it is elsewhere.
func (c Config) socket() string {
	path, ok := strings.CutPrefix(c.Host, "unix://")
	if !ok {
		return ""
	}
	return path
}

// real is a path without symbolic links, as far as it is there.
func resolved(path string) string {
	if is, err := filepath.EvalSymlinks(path); err == nil {
		return is
	}
	return filepath.Clean(path)
}

// within says whether a path is a directory, or is in it.
func within(directory, path string) bool {
	return path == directory || directory == "/" || strings.HasPrefix(path, directory+"/")
}

// checkSources looks at what a container would mount of the machine when it is started. One that was made by a release
// before may have what is refused now.
func (p *Provider) checkSources(ctx context.Context, id string) error {
	is, err := p.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return p.mapped(ctx, err)
	}
	for _, m := range sources(is.Container) {
		why := p.config.refused(m.Source)
		if !m.ReadOnly {
			why = m.Source + " is a directory of the machine that it could write: workspaces share what they write in a `volume`"
		}
		if why != "" {
			return provider.Permanent(xerrors.Errorf("mount %s: %s", m.Target, why))
		}
	}
	return nil
}

func sources(c container.InspectResponse) (all []mount.Mount) {
	if c.HostConfig == nil {
		return nil
	}
	for _, m := range c.HostConfig.Mounts {
		if m.Type == mount.TypeBind {
			all = append(all, m)
		}
	}
	return all
}
