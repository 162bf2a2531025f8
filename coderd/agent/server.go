package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	dialTimeout = 5 * time.Second
	callTimeout = 10 * time.Second
	// forgeTimeout is for what the server asks a forge for.
	forgeTimeout = 40 * time.Second
	// eventsTimeout is what an open question may take: longer than the server keeps it.
	eventsTimeout = 45 * time.Second

	firstBackoff = 250 * time.Millisecond
	mostBackoff  = 10 * time.Second
)

// server is the other side, and the token that is shown to it.
type server struct {
	client    sdk.Client // without a token
	tokenFile string

	mu      sync.Mutex
	token   string
	endLine context.CancelFunc // of the question that is open; nil if none is
}

func newServer(o Options) (*server, error) {
	u, err := sdk.ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}
	if o.CAFile != "" {
		pool, err := authorities(o.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	s := &server{tokenFile: o.TokenFile, client: sdk.Client{
		URL: u, HTTPClient: &http.Client{Transport: transport}, UserAgent: "prewarm-agent/" + o.Version, Clock: o.Clock,
	}}
	return s, s.readToken()
}

// authorities are those of the system and those of the file.
func authorities(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, xerrors.Errorf("read CA bundle: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(content) {
		return nil, xerrors.Errorf("read CA bundle: %s holds no certificate", path)
	}
	return pool, nil
}

func (s *server) readToken() error {
	content, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return xerrors.Errorf("read instance token: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return xerrors.Errorf("read instance token: %s is empty", s.tokenFile)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	return nil
}

// renew takes a token that the server sent. If it cannot be kept for an agent after this one, this one uses it anyway.
func (s *server) renew(token string) error {
	s.mu.Lock()
	s.token = token
	s.mu.Unlock()
	return writeFile(s.tokenFile, []byte(token+"\n"))
}

// speak makes one call within the time-out. After a refusal the token is read anew: somebody may have mended the file.
func (s *server) speak(ctx context.Context, timeout time.Duration, call func(context.Context, *sdk.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := s.client
	s.mu.Lock()
	client.Token = s.token
	s.mu.Unlock()
	err := call(ctx, &client)
	if sdk.StatusOf(err) == http.StatusUnauthorized {
		_ = s.readToken() // if it cannot be read, the one at hand is as good
	}
	return err
}

func (s *server) report(ctx context.Context, report sdk.AgentReport) error {
	return s.speak(ctx, callTimeout, func(ctx context.Context, c *sdk.Client) error {
		receipt, err := c.Report(ctx, report)
		if err != nil || receipt.Token == "" {
			return err
		}
		return s.renew(receipt.Token)
	})
}

// asked is speak for a call that answers something.
func asked[T any](
	ctx context.Context, s *server, timeout time.Duration, call func(*sdk.Client, context.Context) (T, error),
) (answer T, err error) {
	err = s.speak(ctx, timeout, func(ctx context.Context, c *sdk.Client) error {
		answer, err = call(c, ctx)
		return err
	})
	return answer, err
}

func (s *server) metadata(ctx context.Context) (sdk.InstanceMetadata, error) {
	return asked(ctx, s, callTimeout, (*sdk.Client).InstanceMetadata)
}

func (s *server) runnerConfiguration(ctx context.Context) (sdk.RunnerConfiguration, error) {
	return asked(ctx, s, forgeTimeout, (*sdk.Client).RunnerConfiguration)
}

func (s *server) reportRunner(ctx context.Context, report sdk.RunnerReport) error {
	return s.speak(ctx, callTimeout, func(ctx context.Context, c *sdk.Client) error { return c.ReportRunner(ctx, report) })
}

func (s *server) events(ctx context.Context, known uuid.UUID) (sdk.InstanceEvents, error) {
	return asked(ctx, s, eventsTimeout, func(c *sdk.Client, ctx context.Context) (sdk.InstanceEvents, error) {
		return c.InstanceEvents(ctx, known)
	})
}

// openTunnel opens the connection that carries streams into the workspace.
func (s *server) openTunnel(ctx context.Context) (*websocket.Conn, error) {
	return asked(ctx, s, callTimeout, (*sdk.Client).OpenTunnel)
}

// holdLine returns the context of a question that stays open, which hangUp can end. done must follow its answer.
func (s *server) holdLine(ctx context.Context) (line context.Context, done func()) {
	line, end := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine = end
	return line, func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endLine = nil
	}
}

// hangUp ends the open question: another call got no answer, so its connection may be dead without knowing.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endLine != nil {
		s.endLine()
	}
}

// backoff is the pause after failures, doubling from 250 ms to 10 s, each between half and all of it.
type backoff struct{ failures int }

func (b *backoff) next() time.Duration {
	d := min(firstBackoff<<min(b.failures, 10), mostBackoff)
	b.failures++
	return d/2 + rand.N(d/2)
}

// pause waits, and is false if ctx ended first. early, if not nil, ends the pause too.
func pause(ctx context.Context, clock quartz.Clock, d time.Duration, early <-chan struct{}, what string) bool {
	timer := clock.NewTimer(d, "agent", what)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-early:
	}
	return true
}
