package local

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"

	"golang.org/x/xerrors"
)

// Ports are given from below the range that the kernel takes for outgoing connections, so that none of these sits on a
// workspace's port while its server is not up yet.
const firstPort, lastPort = 20000, 32767

// choosePort finds a port that no workspace of this root has and that nothing on the machine listens on.
func (p *Provider) choosePort() (int, error) {
	const n = lastPort - firstPort + 1
	start := rand.IntN(n)
	for i := range n {
		port := firstPort + (start+i)%n
		if _, err := os.Lstat(p.portFile(port)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		l, err := net.Listen("tcp", loopback(port)) //nolint:noctx // binds and lets go at once
		if err != nil {
			continue
		}
		_ = l.Close()
		return port, nil
	}
	return 0, xerrors.Errorf("choose port: none is free from %d to %d", firstPort, lastPort)
}

func (p *Provider) portFile(port int) string { return p.own("ports", strconv.Itoa(port)) }

// reservePort makes the workspace's port its own. The port is in workspace.json before the reservation is made, so that
// whatever happens in between, Delete knows what to give back. Where another was quicker, it takes another port.
func (p *Provider) reservePort(d dir, w *workspace) error {
	for w.Port != 0 {
		err := os.Symlink(w.Name, p.portFile(w.Port))
		if err == nil || p.holdsPort(*w) {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return xerrors.Errorf("reserve port: %w", err)
		}
		if w.Port, err = p.choosePort(); err != nil {
			return err
		}
		if err := w.write(d); err != nil {
			return xerrors.Errorf("reserve port: %w", err)
		}
	}
	return nil
}

func (p *Provider) holdsPort(w workspace) bool {
	owner, err := os.Readlink(p.portFile(w.Port))
	return err == nil && owner == w.Name
}

func (p *Provider) releasePort(w workspace) error {
	if w.Port == 0 || !p.holdsPort(w) {
		return nil
	}
	if err := os.Remove(p.portFile(w.Port)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return xerrors.Errorf("release port: %w", err)
	}
	return nil
}
