package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Get looks a workspace up. If its supervisor was killed, it ends what is left of its processes.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	d, w, v, err := p.find(ctx, ref)
	if err != nil {
		return provider.Instance{}, err
	}
	return instance(d, w, v), nil
}

// List returns the workspaces of the installation, by name. What is not a workspace of this provider is passed over;
// what is and cannot be read makes the listing an error, as it would be incomplete.
func (p *Provider) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	entries, err := os.ReadDir(p.root)
	if err != nil {
		return nil, err
	}
	var list []provider.Instance
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !provider.ValidName(e.Name()) {
			continue
		}
		d := p.dir(e.Name())
		w, err := load(d)
		if errors.Is(err, errUntagged) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var v view
		if err == nil {
			v, err = observe(d)
		}
		if err != nil {
			return nil, err
		}
		if w.Tags.Installation == installation {
			i := instance(d, w, v)
			i.Environment = nil
			list = append(list, i)
		}
	}
	return list, nil
}

// Ready asks the workspace's own condition once.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	d, w, v, err := p.find(ctx, ref)
	if err != nil {
		return provider.Readiness{}, err
	}
	switch {
	case v.lost():
		return provider.Readiness{Failed: true, Detail: withOutput(d, lostDetail)}, nil
	case v.Phase == phaseStopped:
		return provider.Readiness{Detail: "it is stopped"}, nil
	case v.final():
		return provider.Readiness{Failed: true, Detail: withOutput(d, v.Detail)}, nil
	case v.Phase == phaseSetup:
		return provider.Readiness{Detail: "waiting for setup to end"}, nil
	case v.Phase != phaseRunning:
		return provider.Readiness{Detail: "waiting for its supervisor to start"}, nil
	}
	waitingFor, err := w.unready(ctx, d)
	return provider.Readiness{Ready: err == nil && waitingFor == "", Detail: waitingFor}, err
}

// unready says what a running workspace still waits for, empty if for nothing.
func (w workspace) unready(ctx context.Context, d dir) (string, error) {
	r := w.spec.readiness
	switch {
	case r.file != "":
		home, err := os.OpenRoot(d.home()) // a link that leads out of home is no answer
		if err != nil {
			return "", err
		}
		defer home.Close()
		if _, err := home.Stat(r.file); err != nil {
			return "waiting for the file " + r.file, nil
		}
	case r.tcp != 0 || r.ownTCP:
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", loopback(w.tcpPort()))
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			return "waiting for " + loopback(w.tcpPort()) + " to take connections", nil
		}
		_ = conn.Close()
	}
	return "", nil
}

// find looks up what ref means. What is there but tagged for another workspace is not found.
func (p *Provider) find(ctx context.Context, ref provider.Ref) (dir, workspace, view, error) {
	if err := ctx.Err(); err != nil {
		return "", workspace{}, view{}, err
	}
	name, err := refName(ref)
	if err != nil {
		return "", workspace{}, view{}, err
	}
	d := p.dir(name)
	w, err := load(d)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUntagged) || err == nil && !meant(ref, w) {
		err = provider.ErrNotFound
	}
	if err != nil {
		return d, w, view{}, err
	}
	v, err := observe(d)
	if err == nil && v.lost() {
		err = p.settle(ctx, d, w)
	}
	return d, w, v, err
}

func meant(ref provider.Ref, w workspace) bool {
	return ref.WorkspaceID == uuid.Nil || ref.WorkspaceID == w.Tags.WorkspaceID
}

// settle ends what a killed supervisor left, and records that, so that it is done once. If the name is locked, a Delete
// is at it.
func (p *Provider) settle(ctx context.Context, d dir, w workspace) error {
	lock, err := p.tryLockName(w.Name)
	if lock == nil || err != nil {
		return err
	}
	defer lock.Close()
	v, err := observe(d)
	if err != nil || !v.lost() {
		return err
	}
	p.logger.Warn(ctx, "supervisor is gone, ending what it left", slog.F("workspace", w.Name))
	if err := p.killStragglers(ctx, w.Tags.WorkspaceID, v.state); err != nil {
		return err
	}
	v.Phase, v.Detail = phaseFailed, lostDetail
	if err := v.write(d); err != nil {
		return xerrors.Errorf("record end: %w", err)
	}
	return nil
}

// instance is what the outside sees of a workspace.
func instance(d dir, w workspace, v view) provider.Instance {
	i := provider.Instance{
		ProviderID:  w.Name,
		Name:        w.Name,
		Tags:        w.Tags,
		Addresses:   w.addresses(d),
		Environment: w.identity(d),
		CreatedAt:   w.CreatedAt,
	}
	switch {
	case v.lost():
		i.Status, i.Fault = provider.StatusError, lostDetail
	case v.Phase == phaseNone:
		i.Status = provider.StatusUnknown // a Create is at it, or was cut off
	case v.Phase == phaseFailed:
		// As readiness has it: a setup that fails before its create has returned is not asked again.
		i.Status, i.Fault = provider.StatusError, withOutput(d, v.Detail)
	case v.Phase == phaseExited, v.Phase == phaseStopped:
		i.Status = provider.StatusStopped
	default:
		i.Status = provider.StatusRunning
	}
	return i
}

// withOutput adds the last lines of the workspace's output to a message.
func withOutput(d dir, message string) string {
	lines := lastLines(d, 10)
	if lines == "" {
		return message
	}
	return message + "; its last output:\n" + lines
}

// exitDetail puts a wait status into words and into one number, as a shell does.
func exitDetail(ws syscall.WaitStatus) (string, int) {
	if ws.Signaled() {
		return "was ended by signal " + strings.ToLower(ws.Signal().String()), 128 + int(ws.Signal())
	}
	return fmt.Sprintf("ended with exit status %d", ws.ExitStatus()), ws.ExitStatus()
}
