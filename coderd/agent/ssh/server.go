package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/agent/processes"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	handshakeTimeout = 30 * time.Second
	dialTimeout      = 10 * time.Second
	// mostChannels of one connection: sessions and forwarded connections. Each holds up to 2 MiB that was not read.
	mostChannels = 128
	// mostListeners of one connection.
	mostListeners = 32
)

// Server serves SSH in one workspace. It is safe for concurrent use.
type Server struct {
	table *processes.Table
	log   slog.Logger
	key   gossh.Signer
}

// New makes a host key, and a server that runs commands in the table.
func New(table *processes.Table, log slog.Logger) (*Server, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, xerrors.Errorf("make host key: %w", err)
	}
	key, err := gossh.NewSignerFromKey(private)
	if err != nil {
		return nil, xerrors.Errorf("make host key: %w", err)
	}
	return &Server{table, log, key}, nil
}

// Handler serves the host key, and connections as raw streams (sdk.Stream).
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ssh/host-key", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(sdk.SSHHostKey{HostKey: strings.TrimSpace(string(gossh.MarshalAuthorizedKey(s.key.PublicKey())))})
	})
	mux.HandleFunc("GET /ssh", s.serveStream)
	return s.table.ForClaim(mux)
}

func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it is answered
	}
	stream := sdk.NewStream(context.WithoutCancel(r.Context()), s.table.Clock, ws)
	defer stream.Cut()
	if err := s.serve(r.Context(), stream); err != nil {
		s.log.Debug(r.Context(), "connection ended early", slog.Error(err))
		return
	}
	stream.CloseWith(websocket.StatusNormalClosure, "")
}

// connection is one client.
type connection struct {
	*Server
	conn     *gossh.ServerConn
	account  account
	channels atomic.Int32

	mu        sync.Mutex
	listeners map[string]net.Listener // by what the client calls them
}

// serve speaks SSH until the client has gone and its sessions have ended.
func (s *Server) serve(ctx context.Context, conn net.Conn) error {
	c := &connection{Server: s, listeners: map[string]net.Listener{}}
	config := &gossh.ServerConfig{
		ServerVersion: "SSH-2.0-Prewarm", NoClientAuth: true,
		NoClientAuthCallback: func(meta gossh.ConnMetadata) (_ *gossh.Permissions, err error) {
			if c.account, err = s.accountOf(meta.User()); err != nil {
				return nil, &gossh.BannerError{Err: err, Message: "prewarm: " + err.Error() + "\r\n"}
			}
			return &gossh.Permissions{}, nil
		},
	}
	config.AddHostKey(s.key)
	_ = conn.SetDeadline(s.table.Clock.Now("ssh", "handshake").Add(handshakeTimeout))
	made, channels, requests, err := gossh.NewServerConn(conn, config)
	if err != nil {
		return xerrors.Errorf("shake hands: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	c.conn = made
	var serving sync.WaitGroup
	serving.Go(func() { c.requests(ctx, requests) })
	for channel := range channels {
		if c.channels.Add(1) > mostChannels {
			c.channels.Add(-1)
			_ = channel.Reject(gossh.ResourceShortage, "too many channels are open on this connection")
			continue
		}
		serving.Go(func() {
			defer c.channels.Add(-1)
			c.channel(ctx, channel)
		})
	}
	serving.Wait()
	return nil
}

func (c *connection) channel(ctx context.Context, channel gossh.NewChannel) {
	switch channel.ChannelType() {
	case "session":
		made, requests, err := channel.Accept()
		if err == nil {
			(&session{connection: c, channel: made}).serve(ctx, requests)
		}
	case "direct-tcpip":
		c.directTCP(ctx, channel)
	case "direct-streamlocal@openssh.com":
		c.directUnix(ctx, channel)
	default:
		_ = channel.Reject(gossh.UnknownChannelType, "there are no channels of that type")
	}
}
