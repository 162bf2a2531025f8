package modules

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// MostBytes is how large an archive may be.
const MostBytes = 10 << 20

// LockFile is Terraform's dependency lock file, which is part of a module.
const LockFile = ".terraform.lock.hcl"

// Files that are written beside those of a module.
const (
	VariablesFile = "prewarm.auto.tfvars.json"
	BackendFile   = "prewarm_override.tf"
	WorkspaceFile = "prewarm_workspace.tf.json"
	ErroredFile   = "errored.tfstate" // of Terraform: a state that it could not store
)

// Reserved are the files that a module must not have: what they say is not for its author to say.
func Reserved() []string { return []string{VariablesFile, BackendFile, WorkspaceFile, ErroredFile} }

// File is one of a module.
type File struct {
	Name       string // its path within the module
	Content    []byte
	Executable bool
}

// Error is what is wrong with an archive or a directory, in words for its author.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

func wrong(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

var digestRule = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// IsDigest says whether a text is a digest as Digest writes it.
func IsDigest(text string) bool { return digestRule.MatchString(text) }

// Digest identifies an archive: sha256: and the SHA-256 of its bytes in hexadecimal.
func Digest(archive []byte) string {
	sum := sha256.Sum256(archive)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// write packs files, which are sorted.
func write(files []File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		mode := int64(0o644)
		if f.Executable {
			mode = 0o755
		}
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: mode, Size: int64(len(f.Content))})
		if err == nil {
			_, err = w.Write(f.Content)
		}
		if err != nil {
			return nil, wrong("%q cannot be packed: %v", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, wrong("the module cannot be packed: %v", err)
	}
	return out.Bytes(), nil
}

// Read returns the files of an archive. What Pack would not have written is an *Error: paths that leave the module, links, devices,
// files that are there twice, and names that are Terraform's or Prewarm's.
func Read(archive []byte) ([]File, error) {
	if len(archive) > MostBytes {
		return nil, wrong("the archive has %d bytes; at most %d can be", len(archive), MostBytes)
	}
	var files []File
	names, left := map[string]bool{}, int64(MostBytes) // sparse files say that they are larger than the archive
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, wrong("the archive cannot be read: %v", err)
		}
		left -= h.Size
		switch {
		case h.Typeflag != tar.TypeReg:
			return nil, wrong("%q in the archive is no regular file", h.Name)
		case left < 0:
			return nil, wrong("the files of the archive have more than %d bytes", MostBytes)
		case len(files) > 0 && h.Name <= files[len(files)-1].Name:
			return nil, wrong("%q in the archive is not in its place: paths must be sorted, each once", h.Name)
		}
		if err := checkName(h.Name); err != nil {
			return nil, err
		}
		for dir := path.Dir(h.Name); dir != "."; dir = path.Dir(dir) {
			if names[dir] {
				return nil, wrong("%q in the archive is below a file", h.Name)
			}
		}
		names[h.Name] = true
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, wrong("%q in the archive cannot be read: %v", h.Name, err)
		}
		files = append(files, File{h.Name, content, h.Mode&0o100 != 0})
	}
	return files, checkWhole(files)
}

func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return wrong("%q in the archive is no path within the module", name)
	}
	if slices.ContainsFunc(strings.Split(name, "/"), leftOut) {
		return wrong("%q in the archive is not part of a module: leave it out", name)
	}
	if slices.Contains(Reserved(), name) {
		return wrong("%q is Prewarm's: give the file another name", name)
	}
	return nil
}

// leftOut says whether a file or directory of that name is not part of a module: it is of version control, or Terraform's own.
func leftOut(name string) bool {
	return name == ".git" || strings.HasPrefix(name, ".terraform") && name != LockFile ||
		strings.HasSuffix(name, ".tfstate") || strings.Contains(name, ".tfstate.")
}

// checkWhole refuses what Terraform would call an empty configuration.
func checkWhole(files []File) error {
	for _, f := range files {
		if path.Dir(f.Name) == "." && (strings.HasSuffix(f.Name, ".tf") || strings.HasSuffix(f.Name, ".tf.json") || strings.HasSuffix(f.Name, ".tofu")) {
			return nil
		}
	}
	return wrong("there is no *.tf file in the directory itself")
}
