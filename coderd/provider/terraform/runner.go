package terraform

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/coder/quartz"
	"golang.org/x/sync/semaphore"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Options of a Runner.
type Options struct {
	Program string // the path of Terraform or OpenTofu; other users must be able to run it
	Root    string // a directory for those of runs; other users must be able to enter it
	Mirror  string // a directory with the providers of modules, which then come from nowhere else; empty: from where Terraform looks
	Clock   quartz.Clock
	Memory  Memory
	// AllowServerIdentity lets modules run as the server's user, where that is not root.
	AllowServerIdentity bool
}

// Runner makes runs. It is safe for concurrent use.
type Runner struct {
	Options
	Version   string // of the program
	Unlimited error  // why the memory of runs cannot be limited; nil: it is

	room *semaphore.Weighted
}

// New returns a Runner, and removes what is left of runs whose server was killed. The error says what is to be done, as where runs
// would have the server's identity.
func New(ctx context.Context, o Options) (*Runner, error) {
	if os.Geteuid() != 0 && !o.AllowServerIdentity {
		return nil, xerrors.New("modules would run as the server's user, who is not root, and could read its keys. Run the server " +
			"as root, or set allow_server_identity: true if authors of templates may read them")
	}
	if err := sweep(o.Root); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if err := enterable("root", o.Root); err != nil {
			return nil, err
		}
	}
	if err := checkMirror(o.Mirror); err != nil {
		return nil, err
	}
	is, err := version(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Memory, err = o.Memory.or(); err != nil {
		return nil, err
	}
	r := &Runner{Options: o, Version: is, room: o.Memory.room()}
	r.Unlimited = r.limits()
	return r, nil
}

// enterable says whether users of runs can enter the directory of a setting.
func enterable(setting, path string) error {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return xerrors.Errorf("%s: %w", setting, err)
		}
		if info.Mode()&0o001 == 0 {
			return xerrors.Errorf("runs have users of their own, and they cannot enter %s: chmod o+x %s, or name another directory: "+
				"config: {%s: /path/of/it}", dir, dir, setting)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// The user ids of runs are of a range that Linux distributions, systemd and the provider `local` leave alone.
const firstUID, lastUID = 1_880_000_000, 1_899_999_999

// newUID is one for a run; 0 where the server is not root, and so has no other than its own.
func newUID() int {
	if os.Geteuid() != 0 {
		return 0
	}
	return firstUID + rand.IntN(lastUID-firstUID+1)
}

// Backend is where a run keeps its state: Terraform's backend `http` at a server of ours. Without a URL the run has a copy of a state,
// and what it makes of that is lost with it.
type Backend struct {
	Copy        []byte // of a state
	URL         string // of the state
	CA          string // PEM: what to trust the server by; empty: the usual
	WorkspaceID string
	Token       string // secret
}

// Module is what is applied.
type Module struct {
	Files     map[string]string // by their paths below the module
	Variables map[string]string
	Outputs   Outputs // those of the workspace
	// Archive is the digest of one that has the files; empty: Files are all. Executable are those of its files that are.
	Archive    string
	Executable []string
	// Idempotent: creating a resource again makes no second one, so that an apply that was cut off is repeated.
	Idempotent bool
	// Environment is that of its runs, beside what all have: what the provider `coder` reads. Some of it is secret.
	Environment map[string]string
	// HandsOver: what it makes is to be handed over to who claims it.
	HandsOver bool
	Workspace workspace
}

// override is a file that overrides whatever backend the module has.
func (b Backend) override() string {
	kind := "http"
	if b.URL == "" {
		kind = "local"
	}
	return "terraform {\n  backend \"" + kind + "\" {}\n}\n"
}

// Open makes the directory of a run, which Close must remove. A module whose files do not fit into it is a permanent error.
func (r *Runner) Open(m Module, b Backend) (_ *Run, err error) {
	dir, lock, err := makeDirectory(r.Root)
	if err != nil {
		return nil, xerrors.Errorf("make directory of run: %w", err)
	}
	run := &Run{runner: r, dir: dir, lock: lock, backend: b, locked: m.Files[modules.LockFile] != "", env: m.Environment, secrets: m.secrets()}
	defer func() {
		if err != nil {
			_ = run.Close()
		}
	}()
	run.uid = newUID()
	if r.Unlimited == nil {
		if run.group, err = newGroup(filepath.Base(dir), r.Memory.Run); err != nil {
			return nil, xerrors.Errorf("make control group of run: %w", err)
		}
	}
	for _, name := range []string{run.module(), run.home(), run.temp()} {
		if err := os.Mkdir(name, 0o700); err != nil {
			return nil, xerrors.Errorf("make directory of run: %w", err)
		}
	}
	if r.Mirror != "" {
		if err := os.WriteFile(run.settings(), settings(r.Mirror), 0o600); err != nil {
			return nil, xerrors.Errorf("write settings of run: %w", err)
		}
	}
	if err := write(run.module(), m, b); err != nil {
		return nil, err
	}
	if run.uid == 0 {
		return run, nil
	}
	if err := give(dir, run.uid); err != nil {
		return nil, err
	}
	return run, nil
}

// give hands a directory with all that is in it to a user.
func give(dir string, uid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return xerrors.Errorf("open directory of run: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, uid, uid)
	})
	if err != nil {
		return xerrors.Errorf("hand files to user %d: %w", uid, err)
	}
	return nil
}

// stateFile is where Terraform's backend `local` has its state.
const stateFile = "terraform.tfstate"

func write(dir string, m Module, b Backend) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return xerrors.Errorf("open directory of module: %w", err)
	}
	defer root.Close()
	for name, content := range m.Files {
		err := root.MkdirAll(path.Dir(name), 0o700)
		if err == nil {
			mode := fs.FileMode(0o600)
			if slices.Contains(m.Executable, name) {
				mode = 0o700
			}
			err = root.WriteFile(name, []byte(content), mode)
		}
		if err != nil {
			return provider.Permanent(xerrors.Errorf("write file %s of module: %w", strconv.Quote(name), err))
		}
	}
	values := map[string]string{} // none is an object too
	maps.Copy(values, m.Variables)
	variables, err := json.Marshal(values)
	if err != nil {
		return xerrors.Errorf("encode variables: %w", err)
	}
	// Nothing of it is a template: names and ids have no such characters.
	output, err := json.Marshal(map[string]any{"output": map[string]any{workspaceOutput: map[string]any{"value": m.Workspace}}})
	if err != nil {
		return xerrors.Errorf("encode output: %w", err)
	}
	ours := map[string][]byte{
		modules.BackendFile: []byte(b.override()), modules.VariablesFile: variables, modules.WorkspaceFile: output,
	}
	if b.URL == "" {
		ours[stateFile] = b.Copy
	}
	for name, content := range ours {
		if err := root.WriteFile(name, content, 0o600); err != nil {
			return xerrors.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
