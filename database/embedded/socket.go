package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/xerrors"
)

const (
	port       = "5432" // part of the socket's name; there is no TCP port
	socketName = ".s.PGSQL." + port
	// What fits into sockaddr_un with its final zero; other systems than Linux have less.
	maxSocketPath = 103
)

// socketFolder returns a path to the cluster's folder that is short enough for a socket address: the folder itself, or
// a link to it in a private folder. remove takes back what was made.
func socketFolder(cluster string) (path string, remove func(), err error) {
	if len(filepath.Join(cluster, socketName)) <= maxSocketPath {
		return cluster, func() {}, nil
	}
	base := os.Getenv("XDG_RUNTIME_DIR")
	if base == "" || len(base) > maxSocketPath/2 {
		base = "/tmp"
	}
	digest := sha256.Sum256([]byte(cluster))
	private := filepath.Join(base, "prewarm-"+hex.EncodeToString(digest[:6]))
	if err := makePrivate(private); err != nil {
		return "", nil, xerrors.Errorf("create socket folder: %w", err)
	}
	remove = func() { _ = os.RemoveAll(private) }
	link := filepath.Join(private, "db")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, xerrors.Errorf("remove old socket link: %w", err)
	}
	if err := os.Symlink(cluster, link); err != nil {
		return "", nil, xerrors.Errorf("link socket folder: %w", err)
	}
	return link, remove, nil
}

// makePrivate takes over a folder left by the last run, but none that somebody else has put there.
func makePrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if !info.IsDir() || owner != os.Geteuid() || info.Mode().Perm() != 0o700 {
		return xerrors.Errorf("%s is there already and not private to this user: remove it", dir)
	}
	return nil
}

// address is the URL of a database over the socket. It leaves nothing for the PG* environment variables to decide.
func address(folder, role, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database}
	query := url.Values{"host": {folder}, "port": {port}, "sslmode": {"disable"}}.Encode()
	u.RawQuery = strings.ReplaceAll(query, "+", "%20") // a plus is a plus to PostgreSQL's clients
	return u.String()
}
