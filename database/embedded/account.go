package embedded

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/xerrors"
)

// account is who runs PostgreSQL. The zero value is the user of the server itself.
type account struct {
	name     string
	uid, gid uint32
	drop     bool // the server is root, and starts PostgreSQL as this user
}

// chooseAccount returns the owner of the cluster; for a cluster yet to be made by root, postgres or nobody.
func chooseAccount(cluster string) (account, error) {
	own := os.Geteuid()
	owner, err := ownerOf(cluster)
	switch {
	case errors.Is(err, fs.ErrNotExist) && own != 0:
		return account{}, nil
	case errors.Is(err, fs.ErrNotExist):
		return unprivileged()
	case err != nil:
		return account{}, xerrors.Errorf("look at cluster: %w", err)
	case own != 0 && owner != own:
		return account{}, foreignOwner("PostgreSQL cluster", cluster, owner)
	case own != 0:
		return account{}, nil
	case owner == 0:
		return account{}, xerrors.Errorf("PostgreSQL cluster %s belongs to root, as which PostgreSQL refuses to run: "+
			"chown it to the user that shall run it", cluster)
	}
	u, err := user.LookupId(strconv.Itoa(owner))
	if err != nil {
		return account{}, xerrors.Errorf("look up owner of cluster %s: %w", cluster, err)
	}
	return accountOf(u)
}

func unprivileged() (account, error) {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return accountOf(u)
		}
	}
	return account{}, xerrors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody: " +
		"create one, or run the server as another user, or use a running PostgreSQL with --postgres-url")
}

func accountOf(u *user.User) (account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, xerrors.Errorf("parse user id of %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, xerrors.Errorf("parse group id of %s: %w", u.Username, err)
	}
	return account{name: u.Username, uid: uint32(uid), gid: uint32(gid), drop: true}, nil
}

func (a account) credential() *syscall.Credential {
	if !a.drop {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own hands a path that the server made over to the account.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// reaches says whether the account may walk down to path, going by mode bits alone.
func (a account) reaches(path string) bool {
	if !a.drop {
		return true
	}
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return false
		}
		stat, search := info.Sys().(*syscall.Stat_t), fs.FileMode(0o001)
		switch {
		case stat.Uid == a.uid:
			search = 0o100
		case stat.Gid == a.gid:
			search = 0o010
		}
		if info.Mode()&search == 0 {
			return false
		}
		if parent == filepath.Dir(parent) {
			return true
		}
	}
}

func ownerOf(path string) (int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), nil
}

func foreignOwner(what, path string, owner int) error {
	return xerrors.Errorf("%s %s belongs to user %s, but the server runs as %s: "+
		"run it as that user, or choose another directory with --data-dir", what, path,
		userName(owner), userName(os.Geteuid()))
}

func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (" + id + ")"
	}
	return id
}
