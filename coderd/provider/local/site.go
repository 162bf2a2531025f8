package local

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/xerrors"
)

// openSite reads the identity of a root, or makes it. Of several processes that do so at once one wins, and the file is
// whole from the moment it is there: it is written under another name and linked.
func openSite(path string) (string, error) {
	for {
		content, err := os.ReadFile(path)
		if err == nil {
			site := strings.TrimSpace(string(content))
			if site == "" {
				return "", xerrors.Errorf("read site: %s is empty", path)
			}
			return site, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", xerrors.Errorf("read site: %w", err)
		}
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails
		fresh := path + "." + hex.EncodeToString(id)
		if err := writeFile(fresh, []byte(hex.EncodeToString(id)+"\n"), true); err != nil {
			return "", xerrors.Errorf("make site: %w", err)
		}
		err = os.Link(fresh, path)
		_ = os.Remove(fresh)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", xerrors.Errorf("make site: %w", err)
		}
	}
}

// writeFile replaces a file in one step: a reader sees the old or the new content, never a part. With durable, the
// content is on the disk before the name is.
func writeFile(path string, content []byte, durable bool) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && durable {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}
