package kubernetes

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Exec runs a command in the workspace's container, in its working directory, as its user and with its environment. More
// variables are set by the image's env, since Kubernetes cannot; without that program a command runs only if none are given.
func (p *Provider) Exec(ctx context.Context, ref provider.Ref, req provider.ExecRequest) (int, error) {
	if len(req.Command) == 0 {
		return 0, xerrors.New("no command is given")
	}
	f, err := p.find(ctx, ref)
	if err != nil {
		return 0, err
	}
	if f.Status.Phase != corev1.PodRunning || f.DeletionTimestamp != nil {
		return 0, xerrors.New("it is not running")
	}
	mark := provider.ExecMark + "=" + uuid.NewString()
	wrapped := req
	wrapped.Command = slices.Concat([]string{"env", mark}, provider.Environ(req.Env), req.Command)
	code, err := p.exec(ctx, f, wrapped)
	if err != nil && noEnv(err) {
		if len(req.Env) > 0 {
			return 0, xerrors.New("variables cannot be set: the image has no program env")
		}
		code, err = p.exec(ctx, f, req)
	}
	if ctx.Err() != nil {
		p.kill(ctx, f, mark)
		return 0, ctx.Err()
	}
	return code, err
}

// noEnv says whether a runtime did not find env. Nothing was run then, and nothing read of the input.
func noEnv(err error) bool {
	return strings.Contains(err.Error(), `"env"`) && strings.Contains(err.Error(), "executable file not found")
}

// exec runs a command to its end, or until ctx ends, which only ends the connection.
func (p *Provider) exec(ctx context.Context, f found, req provider.ExecRequest) (int, error) {
	url := p.cluster.rest.Post().Namespace(p.cluster.namespace).Resource("pods").Name(f.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: f.container(), Command: req.Command, TTY: req.TTY, Stdin: req.Stdin != nil, Stdout: true, Stderr: !req.TTY,
		}, parameters).URL()
	socket, err := remotecommand.NewWebSocketExecutor(p.cluster.config, "GET", url.String())
	if err != nil {
		return 0, err
	}
	old, err := remotecommand.NewSPDYExecutor(p.cluster.config, "POST", url)
	if err != nil {
		return 0, err
	}
	either, err := remotecommand.NewFallbackExecutor(socket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	defer close(ended)
	var one sync.Mutex // both may be the same writer, and are written to at once
	options := remotecommand.StreamOptions{
		Stdin: req.Stdin, Stdout: locked{&one, req.Stdout}, Stderr: locked{&one, req.Stderr}, Tty: req.TTY,
	}
	if req.TTY {
		options.Stderr = nil
		sizes := make(chan provider.WindowSize)
		go req.Resizes(ended, func(size provider.WindowSize) {
			select {
			case sizes <- size:
			case <-ended:
			}
		})
		options.TerminalSizeQueue = &sizeQueue{sizes, ended}
	}
	err = either.StreamWithContext(ctx, options)
	var status exec.CodeExitError
	if errors.As(err, &status) {
		return status.Code, nil
	}
	return 0, mapped(ctx, err)
}

type locked struct {
	*sync.Mutex
	to io.Writer // may be nil
}

func (l locked) Write(p []byte) (int, error) {
	if l.to == nil {
		return len(p), nil
	}
	l.Lock()
	defer l.Unlock()
	return l.to.Write(p)
}

type sizeQueue struct {
	sizes <-chan provider.WindowSize
	ended <-chan struct{}
}

// Next waits for a size; nil when the command has ended.
func (q *sizeQueue) Next() *remotecommand.TerminalSize {
	select {
	case size := <-q.sizes:
		return &remotecommand.TerminalSize{Width: size.Cols, Height: size.Rows}
	case <-q.ended:
		return nil
	}
}

// killScript ends all processes of the container that have a variable, until none is left. What descends from them has it
// too, unless it took it off.
const killScript = `n=0
while [ $n -lt 100 ]; do
  found=
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [ "$pid" != $$ ] && tr '\0' '\n' <"$dir/environ" 2>/dev/null | grep -qxF "$1" && kill -9 "$pid" 2>/dev/null && found=1
  done
  [ -n "$found" ] || exit 0
  n=$((n+1))
done
exit 1`

// kill ends all processes of a command that was given up: a runtime lets them go on. It takes a shell in the image, as
// Kubernetes has no call for it.
func (p *Provider) kill(ctx context.Context, f found, mark string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), provider.KillTimeout)
	defer cancel()
	code, err := p.exec(ctx, f, provider.ExecRequest{Command: []string{"sh", "-c", killScript, "kill", mark}})
	if err == nil && code != 0 {
		err = xerrors.Errorf("exit status %d", code)
	}
	if err != nil && !errors.Is(err, provider.ErrNotFound) {
		p.logger.Warn(ctx, "kill a command that was given up", slog.F("pod", f.Name), slog.Error(err))
	}
}
