package agent

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/agent/files"
	"github.com/prewarm-dev/prewarm/coderd/agent/ports"
	"github.com/prewarm-dev/prewarm/coderd/agent/processes"
	"github.com/prewarm-dev/prewarm/coderd/agent/ssh"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/streams"
)

const (
	tunnelHeaders = 10 * time.Second // for a request's header to come
	// tunnelLeast is how long a tunnel lives that was no failure.
	tunnelLeast = time.Second
	// tunnelNever is how long the agent waits where the server has no tunnels, or lets this workspace have none.
	tunnelNever = time.Minute
	// refusals of the token in a row, between which it is read again, mean that the work of this workspace has ended.
	refusals = 2
)

// enter lets the user of the workspace in, until ctx ends: it serves processes, files, ports and SSH through tunnels that it opens
// to the server.
//
// A tunnel that is lost is opened again, and nothing else depends on it: reports and claims go their own way. Where the server
// asks for another one, because it stops, the old one goes on until it is cut.
func (a *agent) enter(ctx context.Context, env []string) {
	dir, err := os.Getwd()
	if err != nil {
		a.Log.Warn(ctx, "find directory of the workspace", slog.Error(err))
	}
	table := processes.New(processes.Options{Env: env, Dir: dir, Clock: a.Clock, Log: a.Log.Named("processes"), Grace: a.Grace})
	defer table.Close()
	sshd, err := ssh.New(table, a.Log.Named("ssh"))
	if err != nil {
		a.Log.Error(ctx, "the workspace cannot be entered", slog.Error(err))
		return
	}
	inside := http.NewServeMux()
	inside.Handle("/", table.Handler())
	listening := ports.Handler(ctx, ports.Options{Clock: a.Clock, Log: a.Log.Named("ports")})
	content := files.Handler(table.Dir)
	inside.Handle("/files", content)
	inside.Handle("/files/", content)
	inside.Handle("/ports", listening)
	inside.Handle("/ports/", listening)
	inside.Handle("/ssh", sshd.Handler())
	inside.Handle("/ssh/", sshd.Handler())
	var failed backoff
	refused := 0
	for {
		began := a.Clock.Now("agent", "tunnel")
		err := a.tunnel(ctx, inside)
		if ctx.Err() != nil {
			return
		}
		wait := rand.N(firstBackoff) // not all agents of a replica that went at once
		switch status := sdk.StatusOf(err); {
		case err == nil && a.Clock.Since(began, "agent", "tunnel") >= tunnelLeast:
			failed, refused = backoff{}, 0
		case status == http.StatusNotFound, status == http.StatusNotImplemented, status == http.StatusForbidden:
			wait = tunnelNever/2 + rand.N(tunnelNever/2)
		default:
			wait = failed.next()
			if refused++; status != http.StatusUnauthorized {
				refused = 0
			}
			if refused == refusals {
				table.End()
			}
			if err != nil {
				a.trouble(ctx, "open tunnel", failed, err)
			} else { // it was open, for a moment
				wait = min(wait, tunnelLeast)
			}
		}
		if !pause(ctx, a.Clock, wait, nil, "tunnel") {
			return
		}
	}
}

// tunnel opens one and serves it until it is cut, or until another is asked for: then it is served on in the background.
func (a *agent) tunnel(ctx context.Context, inside http.Handler) error {
	ws, err := a.server.openTunnel(ctx)
	if err != nil {
		return err
	}
	session, err := streams.Accept(streams.Conn(context.WithoutCancel(ctx), ws))
	if err != nil {
		_ = ws.CloseNow()
		return xerrors.Errorf("open tunnel: %w", err)
	}
	leave := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.Handle("/", inside)
	mux.HandleFunc("POST /handover", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case leave <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusNoContent)
	})
	serve := &http.Server{Handler: mux, ReadHeaderTimeout: tunnelHeaders, MaxHeaderBytes: 64 << 10, ErrorLog: slog.Stdlib(ctx, a.Log.Named("tunnel"), slog.LevelDebug)}
	a.tunnels.Go(func() {
		_ = serve.Serve(session) // it ends with the session
		_ = serve.Close()
		_ = ws.CloseNow()
	})
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	select {
	case <-session.CloseChan():
		stop()
	case <-leave:
	case <-ctx.Done():
	}
	return nil
}
