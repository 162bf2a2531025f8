package instance

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"golang.org/x/xerrors"
)

// installScript installs the agent at an instance's first boot: a Go template with GARM's variables.
//
//go:embed install.sh
var installScript []byte

// itself is this binary, which stays the one that runs when the file is replaced by an upgrade.
const itself = "/proc/self/exe"

// ErrNoBinary: there is no agent for that operating system and architecture. The text says where to put one.
var ErrNoBinary = errors.New("this server has no agent for it")

var platformPart = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// Binary opens the agent for a platform, in the words of Go: the file prewarm-OS-ARCH in the folder of binaries, or else
// this very binary where it is for that platform. Whoever asks closes it.
func (s *Service) Binary(goos, goarch string) (*os.File, error) {
	if !platformPart.MatchString(goos) || !platformPart.MatchString(goarch) {
		return nil, xerrors.Errorf("%q and %q name no platform: %w", goos, goarch, ErrNoBinary)
	}
	path := filepath.Join(s.Binaries, "prewarm-"+goos+"-"+goarch)
	if s.Binaries != "" {
		f, err := os.Open(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		return os.Open(itself)
	}
	return nil, xerrors.Errorf("put the binary for %s and %s on the server, as %s: %w", goos, goarch, path, ErrNoBinary)
}
