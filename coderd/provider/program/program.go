// Package program opens the prewarm binary that providers copy to where their workspaces are, and says whether it runs
// there.
package program

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// own is this program, also when its file was replaced by an upgrade.
const own = "/proc/self/exe"

// Program is a binary that is open. It must be closed.
type Program struct {
	*os.File
	Size    int64
	machine elf.Machine
	name    string
}

// Open opens a static binary for Linux: the file of that path, or this program where it is empty. That it is no such
// binary is a permanent error.
func Open(file string) (*Program, error) {
	p := &Program{name: file}
	if file == "" {
		file, p.name = own, "this program"
	}
	var err error
	if p.File, err = os.Open(file); err != nil {
		return nil, xerrors.Errorf("open agent_binary: %w", err)
	}
	if err := p.read(); err != nil {
		_ = p.Close()
		return nil, p.permanent(err)
	}
	return p, nil
}

func (p *Program) permanent(err error) error {
	return provider.Permanent(xerrors.Errorf("agent_binary (%s): %w", p.name, err))
}

func (p *Program) read() error {
	info, err := p.Stat()
	if err != nil {
		return xerrors.Errorf("read program: %w", err)
	}
	p.Size = info.Size()
	binary, err := elf.NewFile(p.File)
	if err != nil {
		return xerrors.Errorf("read program: %w", err)
	}
	p.machine = binary.Machine
	for _, part := range binary.Progs {
		if part.Type == elf.PT_INTERP {
			return xerrors.New("it needs a C library, which may not be where the workspace is. " +
				"Build prewarm with CGO_ENABLED=0, as `make build` does, or let agent_binary name one that is")
		}
	}
	return nil
}

// machines are those of programs by the names of the machines that run them: what `uname -m` and container engines say.
var machines = map[string]elf.Machine{
	"x86_64": elf.EM_X86_64, "amd64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64, "arm64": elf.EM_AARCH64,
	"i386": elf.EM_386, "i586": elf.EM_386, "i686": elf.EM_386, "armv6l": elf.EM_ARM, "armv7l": elf.EM_ARM,
	"armv8l": elf.EM_ARM, "ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
	"loongarch64": elf.EM_LOONGARCH,
}

// RunsOn is nil where the program runs on such a machine, and else a permanent error that says what to do. A machine of an
// unknown kind is taken as it is: only trying can tell.
func (p *Program) RunsOn(machine string) error {
	if want, known := machines[machine]; known && p.machine != want {
		return p.permanent(xerrors.Errorf("it is for %s, and the machine is %s: let agent_binary name one for that", p.machine,
			machine))
	}
	return nil
}

// Sums remembers the hashes of programs by their files, which are large.
type Sums struct {
	mu  sync.Mutex
	sum map[stamp]string
}

type stamp struct {
	name     string
	size     int64
	modified time.Time
}

// Of is the SHA-256 of the program, in hexadecimal digits. The program is left at its beginning.
func (s *Sums) Of(p *Program) (string, error) {
	info, err := p.Stat()
	if err != nil {
		return "", xerrors.Errorf("read program: %w", err)
	}
	key := stamp{p.name, info.Size(), info.ModTime()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sum, known := s.sum[key]; known {
		return sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(p, 0, p.Size)); err != nil {
		return "", xerrors.Errorf("read program: %w", err)
	}
	if s.sum == nil {
		s.sum = map[stamp]string{}
	}
	s.sum[key] = hex.EncodeToString(hash.Sum(nil))
	return s.sum[key], nil
}
