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

// What a workspace has that no other of its root may have is a number, its port or its user id, and reserved by a
// symbolic link from the number to the workspace's name. The number is in workspace.json before the reservation is made,
// so that whatever happens in between, Delete knows what to give back.

// Ports are given from below the range that the kernel takes for outgoing connections, so that none of these sits on a
// workspace's port while its server is not up yet.
const firstPort, lastPort = 20000, 32767

// choosePort finds a port that no workspace of this root has and that nothing on the machine listens on.
func (p *Provider) choosePort() (int, error) {
	return p.choose("ports", firstPort, lastPort, func(port int) bool {
		l, err := net.Listen("tcp", loopback(port)) //nolint:noctx // binds and lets go at once
		if err != nil {
			return false
		}
		_ = l.Close()
		return true
	})
}

// chooseUID finds a user id by chance, so that one is seldom given twice: what a workspace leaves in a directory that all
// may write, such as /tmp, is not the next one's.
func (p *Provider) chooseUID() (int, error) {
	return p.choose("uids", int(p.uids.First), int(p.uids.Last), func(int) bool { return true })
}

func (p *Provider) choose(kind string, first, last int, free func(int) bool) (int, error) {
	count := last - first + 1
	start := rand.IntN(count)
	for i := range count {
		n := first + (start+i)%count
		if _, err := os.Lstat(p.reservation(kind, n)); errors.Is(err, fs.ErrNotExist) && free(n) {
			return n, nil
		}
	}
	return 0, xerrors.Errorf("none of %s %d-%d is free", kind, first, last)
}

func (p *Provider) reservation(kind string, n int) string { return p.own(kind, strconv.Itoa(n)) }

// reserve makes a workspace's numbers its own. Where another was quicker, it chooses anew.
func (p *Provider) reserve(d dir, w *workspace) error {
	for _, n := range []struct {
		kind   string
		number *int
		choose func() (int, error)
	}{{"ports", &w.Port, p.choosePort}, {"uids", &w.UID, p.chooseUID}} {
		for *n.number != 0 {
			err := os.Symlink(w.Name, p.reservation(n.kind, *n.number))
			if err == nil || p.holds(n.kind, *n.number, w.Name) {
				break
			}
			if !errors.Is(err, fs.ErrExist) {
				return xerrors.Errorf("reserve one of %s: %w", n.kind, err)
			}
			if *n.number, err = n.choose(); err != nil {
				return err
			}
			if err := w.write(d); err != nil {
				return xerrors.Errorf("reserve one of %s: %w", n.kind, err)
			}
		}
	}
	return nil
}

func (p *Provider) holds(kind string, n int, name string) bool {
	owner, err := os.Readlink(p.reservation(kind, n))
	return err == nil && owner == name
}

// release gives the numbers back.
func (p *Provider) release(w workspace) error {
	for kind, n := range map[string]int{"ports": w.Port, "uids": w.UID} {
		if n == 0 || !p.holds(kind, n, w.Name) {
			continue
		}
		if err := os.Remove(p.reservation(kind, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return xerrors.Errorf("release one of %s: %w", kind, err)
		}
	}
	return nil
}

// releaseAll gives back what a workspace has whose directory somebody removed, and its numbers with it.
func (p *Provider) releaseAll(name string) error {
	w := workspace{Name: name}
	for kind, n := range map[string]*int{"ports": &w.Port, "uids": &w.UID} {
		entries, err := os.ReadDir(p.own(kind))
		if err != nil {
			return xerrors.Errorf("look for %s: %w", kind, err)
		}
		for _, e := range entries {
			if number, err := strconv.Atoi(e.Name()); err == nil && p.holds(kind, number, name) {
				*n = number
			}
		}
	}
	return p.release(w)
}
