package ports

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// dialTimeout bounds a connection to a port, which is on the same machine.
const dialTimeout = 5 * time.Second

// Options of a handler. All are needed.
type Options struct {
	Clock quartz.Clock
	Log   slog.Logger
}

// Handler serves the ports of this machine or container. ctx is for the log.
func Handler(ctx context.Context, o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ports", func(w http.ResponseWriter, _ *http.Request) {
		all, err := list("/proc")
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w, http.StatusOK, all)
	})
	mux.HandleFunc("GET /ports/{port}/connect", func(w http.ResponseWriter, r *http.Request) {
		port, err := portOf(r)
		var conn *net.TCPConn
		if err == nil {
			conn, err = dial(r.Context(), port)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		defer func() { _ = conn.Close() }()
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // it is answered
		}
		stream := sdk.NewStream(context.WithoutCancel(r.Context()), o.Clock, ws)
		defer stream.Cut()
		if err := sdk.Join(stream, conn); err != nil {
			o.Log.Debug(r.Context(), "connection to port ended early", slog.F("port", port), slog.Error(err))
			_ = conn.SetLinger(0) // the program must not take it for the end
			stream.CloseWith(websocket.StatusBadGateway, "port "+strconv.Itoa(port)+": the connection was reset")
			return
		}
		stream.CloseWith(websocket.StatusNormalClosure, "")
	})
	mux.HandleFunc("/ports/{port}/http", o.proxy(ctx))
	return mux
}

var (
	errPort = errors.New("write a port as a number from 1 to 65535")
	errDial = errors.New("no connection")
)

func portOf(r *http.Request) (int, error) {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		return 0, errPort
	}
	return port, nil
}

// dial connects to a port of loopback.
func dial(ctx context.Context, port int) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	var first error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			return tcp, nil
		}
		first = cmp.Or(first, err)
	}
	if errors.Is(first, syscall.ECONNREFUSED) {
		return nil, xerrors.Errorf("nothing listens on port %d of the workspace: %w", port, errDial)
	}
	return nil, xerrors.Errorf("connect to port %d of the workspace: %s: %w", port, first.Error(), errDial)
}

// refuse answers with what is wrong, for people: a problem as the server's are, as clients of a port get it as it is.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, errPort) {
		status = http.StatusUnprocessableEntity
	}
	w.Header().Set("Content-Type", "application/problem+json")
	answer(w, status, map[string]any{"title": http.StatusText(status), "status": status, "detail": err.Error()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
