package ports

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/streams"
)

// maxHeader bounds the header that a program answers with, in bytes.
const maxHeader = 64 << 10

// A connection to a program is kept for the next request, for less time than programs wait for one: it must not end under a request.
const (
	idleTimeout = 2 * time.Second
	mostIdle    = 4
)

type requestKey struct{}

// asked is what a request asks of which port.
type asked struct {
	port   int
	target *url.URL
}

// proxy hands HTTP requests on to ports, WebSockets too. What is asked is in a header, as the path of a request is cleaned on its
// way. The program sees a request to localhost.
func (o Options) proxy(ctx context.Context) http.HandlerFunc {
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				to, _ := ctx.Value(requestKey{}).(asked)
				return dial(ctx, to.port)
			},
			MaxIdleConnsPerHost: mostIdle, IdleConnTimeout: idleTimeout, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		},
		FlushInterval: streams.FlushAfter, BufferPool: streams.Buffers,
		ErrorLog: slog.Stdlib(ctx, o.Log, slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			to, _ := r.In.Context().Value(requestKey{}).(asked)
			r.Out.URL, r.Out.Host = to.target, ""
			r.Out.Header.Del(sdk.ClaimHeader)
			r.Out.Header.Del(sdk.TargetHeader)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if to, _ := r.Context().Value(requestKey{}).(asked); !errors.Is(err, errDial) {
				err = xerrors.Errorf("port %d of the workspace gave no answer of HTTP: %w", to.port, err)
			}
			refuse(w, err)
		},
	}
	return func(w http.ResponseWriter, r *http.Request) {
		port, err := portOf(r)
		var target *url.URL
		if err == nil {
			target, err = url.ParseRequestURI(r.Header.Get(sdk.TargetHeader))
		}
		if err != nil {
			refuse(w, err)
			return
		}
		_ = http.NewResponseController(w).EnableFullDuplex() // an answer may begin before the end of the body
		// The host keeps connections of one port from requests of another, while they are dialed.
		target.Scheme, target.Host = "http", net.JoinHostPort("localhost", strconv.Itoa(port))
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, asked{port, target})))
	}
}
