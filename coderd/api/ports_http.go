package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/streams"
)

// What a program in a workspace answers comes from our own origin here. So no browser is let in: a token is needed that only
// scripts send, a request with a session is refused, and an answer that is shown all the same has an origin of its own.

func (s *server) registerHTTPPorts() {
	for _, method := range methods {
		op := operation{
			id: strings.ToLower(method) + "-port", method: method, path: "/workspaces/{workspace}/ports/{port}/http/*",
			action: auth.ActUseWorkspace, tag: "ports", endless: true, tokenOnly: true,
			summary: "Send an HTTP request to a port in a claimed workspace",
			description: "What follows `http` is the path there. The header `Authorization` ends here, and the program sees a request to " +
				"localhost. Bodies and answers are handed on as they come, and WebSockets too. Sessions of browsers are refused. " +
				"502 if nothing listens on the port.",
		}
		if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
			op.upload = "application/octet-stream"
		}
		register(s, op, s.requestPort)
	}
}

func (s *server) requestPort(ctx context.Context, who auth.Identity, in *PortRef) (*huma.StreamResponse, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humachi.Unwrap(hc)
		w.Header().Set("Content-Security-Policy", "sandbox")
		before, target := cutTarget(r.URL)
		s.proxyPort(ctx, w, r, e, portRequest{
			PortRef: *in, before: before, target: target,
			outgoing: func(h http.Header) { h.Del("Authorization") },
			refuse:   func(err error) { s.refuse(hc, err) },
		})
	}}, nil
}

// portRequest is how a request goes to a port, by either of the two ways in.
type portRequest struct {
	PortRef
	before   string            // where redirections within the program lead to
	target   string            // path and query, as they came
	outgoing func(http.Header) // takes out of the request what is ours
	refuse   func(error)       // answers with a problem
}

// proxyPort hands an HTTP request on to a port, WebSockets too, and its answer back.
func (s *server) proxyPort(ctx context.Context, w http.ResponseWriter, r *http.Request, e entrance, in portRequest) {
	defer s.visits.enter(s.Clock, visit{e.who.UserID, e.ClaimID.UUID, in.Port}, func() func(map[string]any) {
		return s.begin(e, "port", in.details())
	})()
	_ = http.NewResponseController(w).EnableFullDuplex() // an answer may begin before the end of the body
	proxy := httputil.ReverseProxy{
		FlushInterval: streams.FlushAfter, BufferPool: streams.Buffers,
		ErrorLog:  slog.Stdlib(ctx, s.Log, slog.LevelDebug),
		Transport: s.tunnelled(ctx, e),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, r.Out.Host = &url.URL{Scheme: "http", Path: in.path("/http")}, ""
			in.outgoing(r.Out.Header)
			r.Out.Header.Set(sdk.ClaimHeader, e.ClaimID.UUID.String())
			r.Out.Header.Set(sdk.TargetHeader, in.target)
		},
		ModifyResponse: func(resp *http.Response) error {
			foreign(w.Header(), resp.Header, bareHost(r.Host))
			if to := relocated(resp.Header.Get("Location"), in.before, in.Port); to != "" {
				resp.Header.Set("Location", to)
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			in.refuse(s.problem(ctx, tunnelProblem(ctx, e, err)))
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// tunnelled sends one request to the agent in a workspace.
func (s *server) tunnelled(ctx context.Context, e entrance) http.RoundTripper {
	return roundTripper(func(r *http.Request) (resp *http.Response, err error) {
		content := r.Body
		_, err = s.patiently(ctx, e, func(e entrance) error {
			r.URL.Host = e.TunnelID.String()
			if content != nil {
				r.Body = io.NopCloser(content) // another try needs it open
			}
			resp, err = s.Tunnels.Transport(e.target()).RoundTrip(r) //nolint:bodyclose // the caller closes it
			return err
		})
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cutTarget is what of an address is ours, and what is for a port, both as they came.
func cutTarget(u *url.URL) (before, target string) {
	const ours = 8 // segments: an empty one, api, v1, workspaces, its name, ports, the port, http
	parts := strings.SplitN(u.EscapedPath(), "/", ours+1)
	target = "/" + strings.Join(parts[ours:], "/")
	if u.RawQuery != "" || u.ForceQuery {
		target += "?" + u.RawQuery
	}
	return strings.Join(parts[:ours], "/"), target
}

// foreign takes out of a port's answer what would be for our own origin, or for others than the host that was asked.
func foreign(ours, theirs http.Header, host string) {
	if theirs.Get("Cache-Control") != "" {
		ours.Del("Cache-Control")
	}
	for name := range ours {
		theirs.Del(name)
	}
	for _, name := range []string{"Alt-Svc", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security"} {
		theirs.Del(name)
	}
	reaches := func(cookie string) bool { return isOurs(cookie) || reachesBeyond(cookie, host) }
	if cookies := slices.DeleteFunc(theirs.Values("Set-Cookie"), reaches); len(cookies) > 0 {
		theirs["Set-Cookie"] = cookies
	} else {
		theirs.Del("Set-Cookie")
	}
}

// reachesBeyond says whether a cookie that is set names another host than the one that sets it.
func reachesBeyond(cookie, host string) bool {
	_, attributes, _ := strings.Cut(cookie, ";")
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, value, _ := strings.Cut(attribute, "=")
		domain := strings.TrimPrefix(bareHost(strings.TrimSpace(value)), ".")
		if strings.EqualFold(strings.TrimSpace(name), "Domain") && domain != "" && domain != host {
			return true
		}
	}
	return false
}

// relocated is where a redirection of a port leads from outside; empty where it leads elsewhere.
func relocated(location, before string, port int) string {
	to, err := url.Parse(location)
	here := []string{"", localhost(port), net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if err != nil || !slices.Contains(here, to.Host) || !strings.HasPrefix(to.Path, "/") {
		return ""
	}
	rest := url.URL{Path: to.Path, RawPath: to.RawPath, RawQuery: to.RawQuery, Fragment: to.Fragment}
	return before + rest.String()
}

// localhost is the host that a program sees.
func localhost(port int) string { return net.JoinHostPort("localhost", strconv.Itoa(port)) }

// visitIdle is after how long without a request a session of HTTP requests has ended.
const visitIdle = time.Minute

// visits are sessions of HTTP requests to ports: requests that follow one another are one, for the record. The zero value is
// ready for use.
type visits struct {
	mu   sync.Mutex
	open map[visit]*visited
}

type visit struct {
	user, claim uuid.UUID
	port        int
}

type visited struct {
	requests int
	idle     *quartz.Timer
	end      func(map[string]any)
}

func (v *visits) enter(clock quartz.Clock, key visit, begin func() func(map[string]any)) (leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one := v.open[key]
	if one == nil {
		if v.open == nil {
			v.open = map[visit]*visited{}
		}
		one = &visited{end: begin()}
		v.open[key] = one
	}
	if one.requests++; one.idle != nil {
		one.idle.Stop()
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if one.requests--; one.requests == 0 {
			one.idle = clock.AfterFunc(visitIdle, func() { v.close(key, one) }, "api", "visit")
		}
	}
}

func (v *visits) close(key visit, one *visited) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one.requests == 0 && v.open[key] == one {
		delete(v.open, key)
		one.end(nil)
	}
}
