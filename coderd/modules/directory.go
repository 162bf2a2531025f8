package modules

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/tree"
)

const (
	block      = 512 // of a tar
	mostFiles  = MostBytes / block
	mostShown  = 5 // files in a message
	executable = 0o111
)

// Pack makes the archive of a directory. Left out are .git, states, and what Terraform keeps in names that begin with .terraform, but for
// the lock file. Links are refused: where they lead to is not uploaded. The error is an *Error.
func Pack(dir string) (archive []byte, err error) {
	root, err := os.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong("there is no such directory")
	case err != nil:
		return nil, wrong("the directory cannot be opened: %v", err)
	}
	defer root.Close()
	return PackRoot(root)
}

// PackRoot is Pack of an open directory.
func PackRoot(root *os.Root) (archive []byte, err error) {
	p := packer{}
	if err := p.look(root, ""); err != nil {
		return nil, err
	}
	if p.size > MostBytes {
		return nil, p.tooLarge()
	}
	slices.SortFunc(p.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	files := make([]File, 0, len(p.files))
	for _, f := range p.files {
		read, err := f.read(root)
		if err != nil {
			return nil, err
		}
		files = append(files, read)
	}
	if err := checkWhole(files); err != nil {
		return nil, err
	}
	if archive, err = write(files); err == nil && len(archive) > MostBytes { // long names, or files that grew
		return nil, p.tooLarge()
	}
	return archive, err
}

// file is one that was looked at.
type file struct {
	name string
	size int64
}

type packer struct {
	files []file
	size  int64 // of the archive
}

func (p *packer) look(dir *os.Root, prefix string) error {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return wrong("%q cannot be listed: %v", cmp.Or(prefix, "."), err)
	}
	for _, e := range entries {
		if leftOut(e.Name()) {
			continue
		}
		if err := p.entry(dir, prefix, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(dir *os.Root, prefix, name string) error {
	path := prefix + name
	info, err := dir.Lstat(name)
	if err != nil {
		return wrong("%q cannot be read: %v", path, err)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		sub, err := tree.Sub(dir, name)
		if err != nil {
			return wrong("%q cannot be opened: %v", path, err)
		}
		defer sub.Close()
		return p.look(sub, path+"/")
	case fs.ModeSymlink:
		return wrong("%q is a symbolic link, which is not uploaded: put a copy of what it leads to in its place", path)
	case 0:
	default:
		return wrong("%q is a pipe, socket or device, which is not uploaded: remove it", path)
	}
	if err := checkName(path); err != nil {
		return err
	}
	p.files = append(p.files, file{path, info.Size()})
	p.size += block + (info.Size()+block-1)/block*block
	if len(p.files) > mostFiles {
		return wrong("the directory has more than %d files: is it the right one?", mostFiles)
	}
	return nil
}

func (f file) read(root *os.Root) (File, error) {
	opened, info, err := tree.Open(root.OpenFile, f.name)
	if err != nil {
		return File{}, wrong("%q cannot be opened: %v", f.name, err)
	}
	defer opened.Close()
	content, err := io.ReadAll(io.LimitReader(opened, MostBytes+1))
	if err != nil {
		return File{}, wrong("%q cannot be read: %v", f.name, err)
	}
	return File{f.name, content, info.Mode()&executable != 0}, nil
}

// tooLarge names the files that are worth a look.
func (p *packer) tooLarge() error {
	slices.SortFunc(p.files, func(a, b file) int { return cmp.Or(cmp.Compare(b.size, a.size), strings.Compare(a.name, b.name)) })
	var largest []string
	for _, f := range p.files[:min(mostShown, len(p.files))] {
		largest = append(largest, fmt.Sprintf("%s (%s)", f.name, Size(f.size)))
	}
	return wrong("the directory has %s; at most %s can be uploaded. The largest files are %s", Size(p.size), Size(MostBytes),
		strings.Join(largest, ", "))
}

// Size is a number of bytes for people.
func Size(bytes int64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
