package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Options are what a Provider needs.
type Options struct {
	// Root is the directory of the workspaces. It is made if need be; one that holds anything else is refused.
	Root string
	// AllowRoot lets workspaces run as root where the server does. Otherwise each runs as a user of its own then.
	AllowRoot bool
	// Uids are those users; zero means DefaultUids.
	Uids Uids
	// Private are directories of the server, which workspaces do not see.
	Private []string
	Clock   quartz.Clock
	Logger  slog.Logger
}

// Provider keeps workspaces under one root. Several of them, in one process or many, may share a root.
type Provider struct {
	root       string
	executable string // of this program, which is every supervisor, too
	allowRoot  bool
	uids       Uids
	private    []string
	asked      sync.Once
	isolated   error // as asked once; see Isolated
	site       string
	clock      quartz.Clock
	logger     slog.Logger
}

var _ interface {
	provider.Provider
	provider.Sited
	provider.AgentHost
	provider.Execer
	provider.Logger
	provider.Isolator
	provider.Resetter
	provider.Stopper
} = (*Provider)(nil)

// New opens a root, or makes it.
func New(opts Options) (*Provider, error) {
	if opts.Root == "" {
		return nil, xerrors.New("open root: no directory is given")
	}
	root, err := filepath.Abs(opts.Root)
	if err != nil {
		return nil, xerrors.Errorf("open root: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, xerrors.Errorf("find own program: %w", err)
	}
	opts.Clock = cmp.Or(opts.Clock, quartz.NewReal())
	if opts.Uids == (Uids{}) {
		opts.Uids = DefaultUids
	}
	p := &Provider{
		root: root, executable: self, allowRoot: opts.AllowRoot, uids: opts.Uids, private: opts.Private,
		clock: opts.Clock, logger: opts.Logger,
	}
	if err := p.openRoot(); err != nil {
		return nil, xerrors.Errorf("open root %s: %w", root, err)
	}
	return p, nil
}

// openRoot takes a directory that is new, empty or a root already, so that a slip in the configuration (such as /tmp)
// cannot turn a directory of something else into ours.
func (p *Provider) openRoot() error {
	if err := os.MkdirAll(p.root, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(p.root)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Lstat(p.own()); errors.Is(err, fs.ErrNotExist) {
			return xerrors.New("the directory holds something else: give an empty one, or one that does not exist")
		} else if err != nil {
			return err
		}
	}
	if err := os.Chmod(p.root, 0o700); err != nil { //nolint:gosec // a directory needs the x bit
		return err
	}
	for _, d := range []string{p.own("locks"), p.own("ports"), p.own("uids"), p.own("aside")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	p.site, err = openSite(p.own("site"))
	return err
}

// own is a path in the part of the root that is no workspace.
func (p *Provider) own(elem ...string) string {
	return filepath.Join(append([]string{p.root, ".prewarm"}, elem...)...)
}

func (p *Provider) dir(name string) dir { return dir(filepath.Join(p.root, name)) }

// Site identifies the root: two machines never have the same, and all processes on one root do.
func (p *Provider) Site() string { return p.site }

// HostsAgent marks this as a provider that runs agents: see agent.go.
func (*Provider) HostsAgent() {}

// Validate reports what is wrong with a spec.
func (p *Provider) Validate(raw json.RawMessage, parameters map[string]string) []provider.Problem {
	_, problems := parseSpec(raw, parameters)
	return problems
}

// refName is the name that ref means: the provider's id of a workspace is its name.
func refName(ref provider.Ref) (string, error) {
	name := ref.Name
	if ref.ProviderID != "" {
		name = ref.ProviderID
	}
	return name, provider.CheckName(name)
}
