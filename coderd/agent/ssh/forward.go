package ssh

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"cdr.dev/slog"
	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/xerrors"
)

// What is said of forwarded connections (RFC 4254, section 7, and PROTOCOL of OpenSSH).
type (
	// forwarded is a connection: to where, or on which listener, and from where.
	forwarded struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	forwardedUnix struct {
		Path     string
		Reserved string
		Unused   uint32
	}
	listen struct {
		Host string
		Port uint32
	}
	listening struct{ Port uint32 }
)

// directTCP is a connection from the client to a port that the workspace reaches.
func (c *connection) directTCP(ctx context.Context, channel gossh.NewChannel) {
	var to forwarded
	if gossh.Unmarshal(channel.ExtraData(), &to) != nil {
		_ = channel.Reject(gossh.ConnectionFailed, "the request cannot be read")
		return
	}
	c.connect(ctx, channel, "tcp", net.JoinHostPort(to.Host, strconv.FormatUint(uint64(to.Port), 10)))
}

// directUnix is one to a socket.
func (c *connection) directUnix(ctx context.Context, channel gossh.NewChannel) {
	var to forwardedUnix
	if gossh.Unmarshal(channel.ExtraData(), &to) != nil {
		_ = channel.Reject(gossh.ConnectionFailed, "the request cannot be read")
		return
	}
	c.connect(ctx, channel, "unix", to.Path)
}

func (*connection) connect(ctx context.Context, channel gossh.NewChannel, network, address string) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		_ = channel.Reject(gossh.ConnectionFailed, err.Error())
		return
	}
	made, requests, err := channel.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	join(made, requests, conn)
}

// requests answers what concerns the whole connection. At its end all listeners are closed.
func (c *connection) requests(ctx context.Context, requests <-chan *gossh.Request) {
	var accepting sync.WaitGroup
	for request := range requests {
		var answer []byte
		var err error
		switch request.Type {
		case "tcpip-forward":
			answer, err = c.listen(ctx, request.Payload, &accepting)
		case "cancel-tcpip-forward":
			err = c.unlisten(request.Payload)
		default:
			err = xerrors.New("unknown request")
		}
		if err != nil {
			c.log.Debug(ctx, "request refused", slog.F("type", request.Type), slog.Error(err))
		}
		if request.WantReply {
			_ = request.Reply(err == nil, answer)
		}
	}
	c.mu.Lock()
	for _, l := range c.listeners {
		_ = l.Close()
	}
	c.mu.Unlock()
	accepting.Wait()
}

func (l listen) name(port uint32) string {
	return net.JoinHostPort(l.Host, strconv.FormatUint(uint64(port), 10))
}

// listen has connections to a port in the workspace come to the client. Whatever address the client asks for, it is one of the
// workspace's loopback.
func (c *connection) listen(ctx context.Context, payload []byte, accepting *sync.WaitGroup) (answer []byte, err error) {
	var at listen
	if err := gossh.Unmarshal(payload, &at); err != nil {
		return nil, xerrors.Errorf("read request: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.listeners) >= mostListeners {
		return nil, xerrors.New("too many ports are forwarded on this connection")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen{Host: "127.0.0.1"}.name(at.Port))
	if err != nil {
		return nil, xerrors.Errorf("listen: %w", err)
	}
	port := portOf(l.Addr())
	name := at.name(port)
	c.listeners[name] = l
	accepting.Go(func() {
		c.accept(l, "forwarded-tcpip", func(conn net.Conn) []byte {
			what := forwarded{Host: at.Host, Port: port}
			if from, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
				what.OriginHost, what.OriginPort = from.IP.String(), portOf(from)
			}
			return gossh.Marshal(what)
		})
	})
	if at.Port == 0 { // the client wants to know which one
		answer = gossh.Marshal(listening{port})
	}
	return answer, nil
}

func (c *connection) unlisten(payload []byte) error {
	var at listen
	if err := gossh.Unmarshal(payload, &at); err != nil {
		return xerrors.Errorf("read request: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listeners[at.name(at.Port)]
	if l == nil {
		return xerrors.New("that port is not forwarded")
	}
	delete(c.listeners, at.name(at.Port))
	return l.Close() //nolint:wrapcheck // it is said as it is
}

// agent has connections to a socket come to the client's agent of keys, until close.
func (c *connection) agent(ctx context.Context) (path string, closeAgent func(), err error) {
	dir, err := os.MkdirTemp("", "prewarm-ssh-") // nobody else may enter it
	if err != nil {
		return "", nil, xerrors.Errorf("make socket of the agent of keys: %w", err)
	}
	path = filepath.Join(dir, "agent")
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, xerrors.Errorf("make socket of the agent of keys: %w", err)
	}
	go c.accept(l, "auth-agent@openssh.com", func(net.Conn) []byte { return nil })
	return path, func() { _ = l.Close(); _ = os.RemoveAll(dir) }, nil
}

// accept hands connections on, as channels of a type, until the listener is closed.
func (c *connection) accept(l net.Listener, channelType string, describe func(net.Conn) []byte) {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if c.channels.Add(1) > mostChannels {
			c.channels.Add(-1)
			_ = conn.Close()
			continue
		}
		open.Go(func() {
			defer c.channels.Add(-1)
			made, requests, err := c.conn.OpenChannel(channelType, describe(conn))
			if err != nil {
				_ = conn.Close()
				return
			}
			join(made, requests, conn)
		})
	}
}

func portOf(a net.Addr) uint32 {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return 0
	}
	return uint32(tcp.Port)
}

// join copies between a channel and a connection until both have ended. The end of one way is handed on. Where the client closes
// the channel, or is gone, the connection is closed when all that came is written.
func join(channel gossh.Channel, requests <-chan *gossh.Request, conn net.Conn) {
	defer func() { _ = channel.Close(); _ = conn.Close() }()
	closed, copied := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		gossh.DiscardRequests(requests) // they end with the channel
	}()
	go func() {
		defer close(copied)
		_, _ = io.Copy(channel, conn)
		_ = channel.CloseWrite()
	}()
	_, err := io.Copy(conn, channel)
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || err != nil || half.CloseWrite() != nil {
		return
	}
	select {
	case <-closed:
	case <-copied:
	}
}
