package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Create makes the directory, gives it a port, and starts the supervisor: three steps of which each is found done by a
// Create that comes after one that was cut off.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	none := provider.Instance{}
	if err := checkRequest(req); err != nil {
		return none, err
	}
	lock, err := p.lockName(ctx, req.Name)
	if err != nil {
		return none, err
	}
	defer lock.Close()
	d := p.dir(req.Name)
	w, err := load(d)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w, err = p.prepare(d, req)
	case errors.Is(err, errUntagged), err == nil && w.Tags != req.Tags:
		err = provider.ErrConflict
	}
	if err != nil {
		return none, err
	}
	return p.begin(ctx, d, w, lock)
}

// checkRequest refuses what could not be made.
func checkRequest(req provider.CreateRequest) error {
	if err := provider.CheckName(req.Name); err != nil {
		return err
	}
	_, problems := parseSpec(req.Spec, req.Parameters)
	return provider.SpecError(problems)
}

// begin gives a prepared workspace its port, its user and its supervisor, as far as it has none.
func (p *Provider) begin(ctx context.Context, d dir, w workspace, lock *os.File) (provider.Instance, error) {
	if err := p.reserve(d, &w); err != nil {
		return provider.Instance{}, err
	}
	v, err := observe(d)
	if err == nil && v.Phase == phaseNone {
		err = w.handFiles(d, os.Geteuid())
		if err == nil {
			err = p.startSupervisor(ctx, d, w, lock)
		}
		if err == nil {
			v, err = observe(d)
		}
	}
	if err != nil {
		return provider.Instance{}, err
	}
	return instance(d, w, v), nil
}

// prepare makes the directory aside and moves it to its place when it is whole.
func (p *Provider) prepare(d dir, req provider.CreateRequest) (workspace, error) {
	w := workspace{
		Name: req.Name, Tags: req.Tags, Organization: req.Organization, Template: req.Template, Preset: req.Preset,
		Spec: req.Spec, Parameters: req.Parameters, CreatedAt: p.clock.Now().UTC().Truncate(time.Millisecond),
	}
	w.spec, _ = parseSpec(req.Spec, req.Parameters)
	if w.spec.port {
		var err error
		if w.Port, err = p.choosePort(); err != nil {
			return w, err
		}
	}
	aside := dir(p.own("aside", req.Name))
	if err := removeTree(string(aside)); err != nil {
		return w, xerrors.Errorf("remove leftovers: %w", err)
	}
	if os.Geteuid() == 0 && !p.allowRoot {
		var err error
		if w.UID, err = p.chooseUID(); err != nil {
			return w, err
		}
	}
	if err := p.mayRun(w); err != nil {
		return w, err
	}
	for _, path := range []string{string(aside), aside.home(), aside.tmp()} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return w, xerrors.Errorf("prepare directory: %w", err)
		}
	}
	if err := os.WriteFile(aside.lockFile(), nil, 0o600); err != nil {
		return w, xerrors.Errorf("prepare directory: %w", err)
	}
	if err := w.handOver(aside, req.Callback); err != nil {
		return w, xerrors.Errorf("hand token to agent: %w", err)
	}
	if err := w.write(aside); err != nil {
		return w, xerrors.Errorf("prepare directory: %w", err)
	}
	if err := os.Rename(string(aside), string(d)); err != nil {
		return w, xerrors.Errorf("put directory in place: %w", err)
	}
	return w, nil
}

// handFiles gives the workspace's user what was another's, where it has one of its own, and lets it pass to there. What
// belongs to a third user stays his: a workspace may have linked to it. Nothing of the workspace runs meanwhile.
func (w workspace) handFiles(d dir, from int) error {
	if w.UID == 0 {
		return nil
	}
	if err := os.Chmod(string(d), 0o711); err != nil { //nolint:gosec // a directory needs the x bit
		return xerrors.Errorf("hand files to user %d: %w", w.UID, err)
	}
	for _, tree := range []string{d.home(), d.tmp(), d.agent()} {
		err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != from {
				return nil
			}
			return os.Lchown(path, w.UID, w.UID) //nolint:gosec // nobody is there who could race with it
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // not each has an agent
			return xerrors.Errorf("hand files to user %d: %w", w.UID, err)
		}
	}
	return nil
}

// startSupervisor starts the supervisor and waits until it has taken over. The lock of the name goes with it: if ctx
// ends, or this process does, whoever takes the lock next finds the supervisor recorded or dead.
func (p *Provider) startSupervisor(ctx context.Context, d dir, w workspace, lock *os.File) error {
	if err := p.mayRun(w); err != nil {
		return err
	}
	r, taken, err := os.Pipe()
	if err != nil {
		return xerrors.Errorf("start supervisor: %w", err)
	}
	defer r.Close()
	defer taken.Close()
	stderr, err := os.OpenFile(d.supervisorLog(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return xerrors.Errorf("start supervisor: %w", err)
	}
	defer stderr.Close()

	args := []string{supervisorCommand, string(d)}
	attributes := &syscall.SysProcAttr{Setsid: true}
	if p.Isolated() == nil {
		hidden, err := p.hidden()
		if err != nil {
			return xerrors.Errorf("start supervisor: %w", err)
		}
		args, attributes = append(append(args, enterArgument), hidden...), inNamespaces()
	}
	cmd := exec.Command(p.executable, args...) //nolint:noctx // ours, and it outlives every context
	cmd.Dir = string(d)
	cmd.Env = []string{
		"PATH=" + defaultPath, "GOMAXPROCS=1", envWorkspaceID + "=" + w.Tags.WorkspaceID.String(), envMark + "=" + w.mark(),
	}
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{taken, lock} // 3 and 4: see runSupervisor
	cmd.SysProcAttr = attributes
	if err := cmd.Start(); err != nil {
		return xerrors.Errorf("start supervisor: %w", err)
	}
	go func() { _ = cmd.Wait() }() // so that it does not stay as a zombie while this server lives

	_ = taken.Close()
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := io.ReadAll(r)
	if ctx.Err() != nil {
		return xerrors.Errorf("start supervisor: %w", ctx.Err())
	}
	if err != nil {
		return xerrors.Errorf("start supervisor: %w", err)
	}
	if string(answer) != takenOver {
		said, _ := os.ReadFile(d.supervisorLog())
		return xerrors.Errorf("start supervisor: it ended: %s%s", answer, bytes.TrimSpace(said))
	}
	p.logger.Debug(ctx, "supervisor took over", slog.F("workspace", w.Name), slog.F("pid", cmd.Process.Pid))
	return nil
}
