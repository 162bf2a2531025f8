package coderd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
	"github.com/prewarm-dev/prewarm/coderd/states"
)

// terraforms makes providers that run Terraform, with the states that this server keeps.
type terraforms struct {
	states       *states.Service
	url          string // of this server
	ca           string // PEM: what to trust it by; empty: the usual
	installation uuid.UUID
	clock        quartz.Clock
	log          slog.Logger
	found        *sync.Map // programs that are in the log already
}

// leastDriftEvery is more than a look may take: two replicas do not look at the same workspace.
const leastDriftEvery = 15 * time.Minute

func (t terraforms) make(ctx context.Context, config json.RawMessage) (provider.Provider, error) {
	var c struct {
		Program             string         `json:"program"`
		Root                string         `json:"root"`
		Mirror              string         `json:"mirror"`
		AllowServerIdentity bool           `json:"allow_server_identity"`
		DriftEvery          specs.Duration `json:"drift_every"`
		Memory              struct {
			Run   specs.Size `json:"run"`
			Total specs.Size `json:"total"`
		} `json:"memory"`
	}
	if err := specs.Config(config, &c); err != nil {
		return nil, err
	}
	if every := time.Duration(c.DriftEvery); every != 0 && every < leastDriftEvery {
		return nil, xerrors.Errorf("drift_every: %s is too often: each look is a run. It can be from %s on", every, leastDriftEvery)
	}
	program, err := findTerraform(c.Program)
	if err != nil {
		return nil, err
	}
	runner, err := terraform.New(ctx, terraform.Options{
		Program: program, Root: cmp.Or(c.Root, os.TempDir()), Mirror: c.Mirror, Clock: t.clock, AllowServerIdentity: c.AllowServerIdentity,
		Memory: terraform.Memory{Run: int64(c.Memory.Run), Total: int64(c.Memory.Total)},
	})
	if err != nil {
		return nil, err
	}
	if _, known := t.found.LoadOrStore(program+" "+runner.Version, true); !known {
		t.log.Info(ctx, "terraform found", slog.F("program", program), slog.F("version", runner.Version))
		if runner.Unlimited != nil {
			t.log.Warn(ctx, "the memory of terraform's runs is not limited on this machine", slog.Error(runner.Unlimited))
		}
	}
	return &terraform.Provider{
		Runner: runner, States: storedStates{t.states}, StateURL: t.url + "/api/v1/terraform/state", StateCA: t.ca,
		Installation: t.installation, LookEvery: time.Duration(c.DriftEvery),
	}, nil
}

// findTerraform is the program that is configured, or the first that is found.
func findTerraform(configured string) (string, error) {
	if configured != "" {
		if !filepath.IsAbs(configured) {
			return "", xerrors.Errorf("program: %q is no absolute path", configured)
		}
		if _, err := exec.LookPath(configured); err != nil {
			return "", xerrors.Errorf("program: %w", err)
		}
		return configured, nil
	}
	for _, name := range []string{"tofu", "terraform"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", xerrors.New("neither tofu nor terraform is in the server's PATH: install one of 1.6 or newer, or name it: config: {program: /path/of/it}")
}

// storedStates are the states as a provider reads them.
type storedStates struct{ *states.Service }

func (s storedStates) Of(ctx context.Context, workspaceID uuid.UUID) (terraform.Stored, error) {
	is, err := s.Service.Of(ctx, workspaceID)
	return terraform.Stored(is), asMissing(err)
}

func (s storedStates) Named(ctx context.Context, name string) (terraform.Stored, error) {
	is, err := s.Service.Named(ctx, name)
	return terraform.Stored(is), asMissing(err)
}

func (s storedStates) All(ctx context.Context) ([]terraform.Stored, error) {
	have, err := s.Service.All(ctx)
	all := make([]terraform.Stored, len(have))
	for i, is := range have {
		all[i] = terraform.Stored(is)
	}
	return all, err
}

func (s storedStates) Module(ctx context.Context, workspaceID uuid.UUID) ([]byte, error) {
	module, err := s.Service.Module(ctx, workspaceID)
	return module, asMissing(err)
}

func (s storedStates) State(ctx context.Context, workspaceID uuid.UUID) ([]byte, error) {
	state, err := s.Service.State(ctx, workspaceID)
	return state, asMissing(err)
}

func (s storedStates) Archive(ctx context.Context, digest string) ([]byte, error) {
	archive, err := s.Service.Archive(ctx, digest)
	if errors.Is(err, states.ErrNoArchive) {
		err = xerrors.Errorf("%w: apply the file again with prewarm apply, which uploads the directory", err)
	}
	return archive, err
}

func asMissing(err error) error {
	if errors.Is(err, states.ErrNone) {
		return provider.ErrNotFound
	}
	return err
}
