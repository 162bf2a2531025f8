package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"time"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/events"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	// pingEvery and half as much again at most, by chance: who does not answer is gone.
	pingEvery = 30 * time.Second
	// eventLimit is how long a client may take for a message, or to answer a ping. What happens meanwhile is merged.
	eventLimit = 30 * time.Second
	// Bounds of how long clients are asked to wait before they connect again, each another time.
	firstReconnect = 500 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

type streamInput struct {
	Upgrade string `header:"Upgrade" hidden:"true"`
}

func (s *server) registerEvents() {
	register(s, operation{
		id: "stream-events", method: http.MethodGet, path: "/events", action: auth.ActReadSelf, tag: "server",
		endless: true, summary: "Hear what changes, over a WebSocket",
		description: "The server's messages are JSON. A hint has a topic and an id of what has changed and you may read. " +
			"The first message says that everything may have changed, as does one in place of very many. A slow client finds its hints merged. Once the stream " +
			"has ended, connect again after reconnect_ms; the status 4401 says that the token is no longer valid.",
	}, s.streamEvents)
	// No operation answers with it, but clients are generated from the document.
	s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[sdk.Events](), true, "Events")
}

func (s *server) streamEvents(ctx context.Context, who auth.Identity, in *streamInput) (*huma.StreamResponse, error) {
	if !strings.EqualFold(in.Upgrade, "websocket") {
		return nil, huma.NewError(http.StatusUpgradeRequired, "events come over a WebSocket: ask for an upgrade")
	}
	stream, err := s.Events.Subscribe(who)
	if errors.Is(err, events.ErrTooMany) {
		return nil, huma.Error429TooManyRequests(err.Error())
	}
	if err != nil {
		return nil, huma.Error503ServiceUnavailable(err.Error())
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer stream.Close()
		r, w := humachi.Unwrap(hc)
		conn, err := websocket.Accept(w, r, nil) // refuses another origin, and answers itself
		if err == nil {
			gone := conn.CloseRead(context.WithoutCancel(ctx)) // not with ctx, which would end the connection without a word
			err = s.sendEvents(gone, ctx, conn, stream)
			_ = conn.CloseNow()
		}
		if err != nil {
			s.Log.Debug(ctx, "event stream ended", slog.F("request", requestIDOf(ctx)), slog.Error(err))
		}
	}}, nil
}

// sendEvents tells the client what the stream has, until one of them ends. ctx ends with the client, allowed with its right
// to listen.
func (s *server) sendEvents(ctx, allowed context.Context, conn *websocket.Conn, stream *events.Stream) error {
	reconnect := firstReconnect + rand.N(lastReconnect-firstReconnect)
	every := pingEvery + rand.N(pingEvery/2)
	ping := s.Clock.NewTicker(every, "api", "events")
	defer ping.Stop()
	first := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-allowed.Done():
			return endEvents(ctx, conn, context.Cause(allowed), reconnect)
		case <-stream.Ready():
			message := stream.Take()
			if message == nil {
				continue
			}
			if first {
				first = false
				message = &events.Message{Events: sdk.Events{Everything: true, ReconnectMS: reconnect.Milliseconds()}}
			}
			if err := sendEvent(ctx, conn, message); err != nil {
				return err
			}
		case <-ping.C:
			if err := within(ctx, conn.Ping); err != nil {
				return xerrors.Errorf("ping: %w", err)
			}
		case <-stream.Ended():
			return endEvents(ctx, conn, events.ErrStopping, reconnect)
		}
	}
}

// endEvents tells the client why, and when to come again.
func endEvents(ctx context.Context, conn *websocket.Conn, reason error, reconnect time.Duration) error {
	if errors.Is(reason, auth.ErrRevoked) {
		return conn.Close(sdk.CloseUnauthorized, reason.Error())
	}
	last := &events.Message{Events: sdk.Events{ReconnectMS: reconnect.Milliseconds()}}
	if err := sendEvent(ctx, conn, last); err != nil {
		return err
	}
	return conn.Close(websocket.StatusServiceRestart, reason.Error())
}

func sendEvent(ctx context.Context, conn *websocket.Conn, message *events.Message) error {
	return within(ctx, func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, message.JSON()) })
}

func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, eventLimit)
	defer cancel()
	return do(ctx)
}
