package api

import (
	"context"
	"net/http"
	"strings"

	"cdr.dev/slog"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/streams"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type tunnelInput struct {
	Upgrade string `header:"Upgrade" hidden:"true"`
}

func (s *server) registerInstanceTunnel() {
	registerForInstance(s, operation{
		id: "open-instance-tunnel", method: http.MethodGet, path: "/instance/tunnel", action: auth.ActTunnelInstance, endless: true,
		summary: "Open the connection through which the workspace is entered, over a WebSocket",
		description: "It carries streams (yamux, version 0), which the server opens. Each is one HTTP connection, on which the agent " +
			"is the server. 403 if the template turns the data plane off, 503 while the replica stops.",
	}, s.instanceTunnel)
}

func (s *server) instanceTunnel(ctx context.Context, i instance.Instance, in *tunnelInput) (*huma.StreamResponse, error) {
	if s.Tunnels == nil {
		return nil, huma.Error501NotImplemented("this server takes no tunnels")
	}
	if !strings.EqualFold(in.Upgrade, "websocket") {
		return nil, huma.NewError(http.StatusUpgradeRequired, "a tunnel is a WebSocket: ask for an upgrade")
	}
	has, err := viewsdb.New(s.Store).HasDataPlane(ctx, i.WorkspaceID)
	if err != nil {
		return nil, xerrors.Errorf("read data plane of template: %w", err)
	}
	if !has {
		return nil, huma.Error403Forbidden("the template of workspace " + i.Name + " turns the data plane off")
	}
	if err := s.Tunnels.Ready(); err != nil {
		// The agent's next try must not come here again on the same connection, past a load balancer.
		return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(err.Error()), http.Header{"Connection": {"close"}})
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humachi.Unwrap(hc)
		ws, err := streams.Upgrade(w, r)
		if err != nil {
			s.Log.Debug(ctx, "tunnel without a connection", slog.F("workspace", i.Name), slog.Error(err))
			return
		}
		// The request ends here, and the tunnel goes on.
		if _, err = s.Tunnels.Attach(ctx, tunnel.Agent{
			WorkspaceID: i.WorkspaceID, Incarnation: i.Bearer.Incarnation, Attempt: i.Bearer.Attempt,
		}, ws); err != nil {
			s.Log.Debug(ctx, "tunnel refused", slog.F("workspace", i.Name), slog.Error(err))
		}
	}}, nil
}

// serveRelay is for other replicas, which prove to be such within the connection (package tunnel).
func (s *server) serveRelay(router chi.Router) {
	router.Get(tunnel.Path, func(w http.ResponseWriter, r *http.Request) {
		if s.Tunnels == nil {
			s.notFound(w, r)
			return
		}
		s.Tunnels.ServeRelay(w, r)
	})
}
