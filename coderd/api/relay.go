package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// relayPing is how often a raw stream is tried that may be idle.
const relayPing = 20 * time.Second

// relay joins a client's raw stream with one of the agent's at a path (sdk.Stream). What the agent refuses has a status, as the
// client's connection is accepted after that. The session is recorded by its kind, with these details.
func (s *server) relay(
	ctx context.Context, e entrance, upgrade, path, kind string, details map[string]any,
) (*huma.StreamResponse, error) {
	if !strings.EqualFold(upgrade, "websocket") {
		return nil, huma.NewError(http.StatusUpgradeRequired, "this is a WebSocket: ask for an upgrade")
	}
	var inside *sdk.Stream
	e, err := s.patiently(ctx, e, func(e entrance) (err error) {
		client := &http.Client{Transport: s.Tunnels.Transport(e.target())}
		inside, err = sdk.DialStream(ctx, s.Clock, client, e.address(path, nil), http.Header{sdk.ClaimHeader: {e.ClaimID.UUID.String()}})
		return err
	})
	if refused, is := errors.AsType[*sdk.Error](err); is {
		if refused.Status == http.StatusNotFound {
			return nil, errOldAgent
		}
		return nil, refusal(refused.Status, refused.Detail)
	}
	if err != nil {
		return nil, tunnelProblem(ctx, e, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer s.Tunnels.Hold()()
		defer inside.Cut()
		r, w := humachi.Unwrap(hc)
		ws, err := websocket.Accept(w, r, nil) // refuses another origin, and answers itself
		if err != nil {
			s.Log.Debug(ctx, "stream without a connection", slog.F("request", requestIDOf(ctx)), slog.Error(err))
			return
		}
		end := s.begin(e, kind, details)
		defer end(nil)
		outside := sdk.NewStream(context.WithoutCancel(ctx), s.Clock, ws)
		defer outside.Cut()
		if err := s.join(ctx, outside, inside); err != nil {
			status, why := s.causeOf(ctx, e, err)
			outside.CloseWith(status, why)
			s.Log.Debug(ctx, "stream ended early", slog.F("request", requestIDOf(ctx)), slog.Error(err))
			return
		}
		outside.CloseWith(websocket.StatusNormalClosure, "")
	}}, nil
}

// join copies both ways until both have ended, one is broken, or ctx ends.
func (s *server) join(ctx context.Context, outside, inside *sdk.Stream) error {
	stop := context.AfterFunc(ctx, inside.Cut)
	defer stop()
	pinging, cancel := context.WithCancel(ctx)
	defer cancel()
	s.Clock.TickerFunc(pinging, relayPing, func() error {
		err := outside.Ping()
		if err != nil && pinging.Err() == nil {
			inside.Cut()
		}
		return err
	}, "api", "relay")
	return sdk.Join(outside, inside)
}

// endOf is causeOf as an error, for a connection to a command.
func (s *server) endOf(ctx context.Context, e entrance, err error) error {
	status, why := s.causeOf(ctx, e, err)
	if status == sdk.StatusClaimEnded {
		return xerrors.Errorf("%s: %w", why, sdk.ErrClaimEnded)
	}
	return &sdk.StreamError{CloseError: websocket.CloseError{Code: status, Reason: why}}
}

// causeOf is why a stream ended early, for its client.
func (s *server) causeOf(ctx context.Context, e entrance, err error) (websocket.StatusCode, string) {
	if why := context.Cause(ctx); errors.Is(why, auth.ErrNotAllowed) {
		return websocket.StatusPolicyViolation, why.Error()
	}
	if closed := (&sdk.StreamError{}); errors.As(err, &closed) && closed.Code == websocket.StatusBadGateway {
		return closed.Code, closed.Reason
	}
	if s.Tunnels.Ready() != nil {
		return websocket.StatusServiceRestart, "the server is stopping: connect again"
	}
	now, err := s.entranceOf(context.WithoutCancel(ctx), e.who, e.action, e.ID.String())
	if errors.Is(err, auth.ErrNotFound) || errors.Is(err, auth.ErrConflict) || err == nil && now.Incarnation != e.Incarnation {
		return sdk.StatusClaimEnded, "workspace " + e.Name
	}
	return websocket.StatusGoingAway, "the connection into workspace " + e.Name + " was cut: connect again"
}
