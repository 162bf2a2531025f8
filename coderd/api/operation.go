package api

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
)

// operation is one thing that the API does.
type operation struct {
	id          string
	method      string
	path        string // under /api/v1
	action      auth.Action
	tag         string
	summary     string
	description string
	status      int    // of success; 200 where 0
	upload      string // media type of a body of any size, which is handed on as it comes; empty: none
	limit       int64  // of an upload that is read whole, in bytes; 0: it is none
	endless     bool   // a long poll or a stream: without the deadline of other requests, and ended when it is not allowed any more
	tokenOnly   bool   // refuses requests with a session, and so all browsers
}

const prefix = "/api/v1"

type contextKey struct{ name string }

var identityKey = &contextKey{"identity"}

// none is an input without parameters.
type none struct{}

// body is an output with a body.
type body[T any] struct{ Body T }

func bodyOf[T any](v T) *body[T] { return &body[T]{Body: v} }

// answer declares an operation whose handler returns the body of the answer.
func answer[I, T any](s *server, op operation, handle func(ctx context.Context, who auth.Identity, in *I) (T, error)) {
	register(s, op, func(ctx context.Context, who auth.Identity, in *I) (*body[T], error) {
		v, err := handle(ctx, who, in)
		return bodyOf(v), err
	})
}

// act declares an operation that answers nothing, with status 204.
func act[I any](s *server, op operation, handle func(ctx context.Context, who auth.Identity, in *I) error) {
	op.status = http.StatusNoContent
	register(s, op, func(ctx context.Context, who auth.Identity, in *I) (*struct{}, error) {
		return nil, handle(ctx, who, in)
	})
}

// register declares an operation. The handler runs only for who may do the action at all; where that is only on what
// is one's own, the handler sees to it.
func register[I, O any](
	s *server, op operation, handle func(ctx context.Context, who auth.Identity, in *I) (*O, error),
) {
	var content *huma.RequestBody
	if op.upload != "" {
		content = &huma.RequestBody{Content: map[string]*huma.MediaType{
			op.upload: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}
		s.uploads[op.method+" "+prefix+op.path] = true
	}
	reads, bodyTimeout := int64(maxBody), time.Duration(0)
	if op.limit > 0 {
		reads, bodyTimeout = op.limit+1, -1 // huma reads less than its limit, and coderd/serve bounds the time by the size
	}
	security := []map[string][]string{{"token": {}}, {"session": {}}}
	if op.tokenOnly {
		security = security[:1]
	}
	registerAs(s, op, identityKey, huma.Operation{
		MaxBodyBytes:    reads,
		BodyReadTimeout: bodyTimeout,
		RequestBody:     content,
		Security:        security,
		Errors:          []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable},
		Middlewares:     huma.Middlewares{s.deadline(op), s.authenticate(op)},
		Parameters: []*huma.Param{{
			Name: "organization", In: "query", Description: "The organization to act in",
			Schema: &huma.Schema{Type: "string", Default: "default"},
		}},
	}, func(ctx context.Context, who auth.Identity, in *I) (*O, error) {
		if err := checkLines(in); err != nil {
			return nil, err
		}
		return handle(ctx, who, in)
	})
}

// registerAs declares an operation for whom a middleware finds, and leaves in the context under that key.
func registerAs[W, I, O any](
	s *server, op operation, key *contextKey, as huma.Operation, handle func(ctx context.Context, who W, in *I) (*O, error),
) {
	as.OperationID, as.Method, as.Path = op.id, op.method, prefix+op.path
	as.Tags, as.Summary, as.Description, as.DefaultStatus = []string{op.tag}, op.summary, op.description, op.status
	as.Metadata = map[string]any{"action": op.action}
	as.Extensions = map[string]any{"x-action": op.action}
	huma.Register(s.api, as, func(ctx context.Context, in *I) (*O, error) {
		who, ok := ctx.Value(key).(W)
		if !ok {
			return nil, s.problem(ctx, xerrors.Errorf("request without %s", key.name))
		}
		out, err := handle(ctx, who, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	})
}

func (*server) deadline(op operation) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		if op.endless {
			next(hc)
			return
		}
		ctx, cancel := context.WithTimeout(hc.Context(), requestTimeout)
		defer cancel()
		next(huma.WithContext(hc, ctx))
	}
}

// authenticate finds out who is asking, in which organization, and whether that role has any part in the action.
func (s *server) authenticate(op operation) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		if op.tokenOnly && hasSession(hc) {
			s.refuse(hc, huma.Error403Forbidden("this is not for browsers: send a token as `Authorization: Bearer …`, and no session of the page"))
			return
		}
		secret, session := bearer(hc), false
		if hc.Header("Authorization") == "" {
			secret = sessionOf(hc)
			session = secret != ""
		}
		if secret == "" {
			s.unauthorized(hc, "a token is needed: send it as `Authorization: Bearer …`; `prewarm login` keeps one")
			return
		}
		if session && forged(hc) {
			s.refuse(hc, huma.Error403Forbidden("a request that changes something, and has a session for a token, must come "+
				"from a page of this server"))
			return
		}
		identify := s.Auth.Authenticate
		if session {
			identify = s.Auth.Session
		}
		principal, err := identify(hc.Context(), auth.Secret(secret))
		if errors.Is(err, auth.ErrUnauthenticated) {
			if session {
				forget := noSession(secure(hc))
				hc.SetHeader("Set-Cookie", forget.String())
			}
			s.unauthorized(hc, err.Error())
			return
		}
		if err != nil {
			s.refuse(hc, s.problem(hc.Context(), err))
			return
		}
		noteUser(hc.Context(), principal.User)
		organization := cmp.Or(hc.Query("organization"), "default")
		who, member := principal.In(organization)
		if !member {
			s.refuse(hc, huma.Error403Forbidden("you are not a member of organization "+organization))
			return
		}
		if who.Part(op.action) == auth.None {
			s.refuse(hc, huma.Error403Forbidden(auth.Cannot(who.Role, op.action)))
			return
		}
		who.Source = hostOf(hc.RemoteAddr())
		hc = huma.WithValue(hc, identityKey, who)
		if op.endless {
			ctx, stop := s.watch.While(hc.Context(), who)
			defer stop()
			ctx, end := endable(ctx)
			defer end()
			hc = huma.WithContext(hc, ctx)
		}
		next(hc)
	}
}

func (s *server) unauthorized(hc huma.Context, message string) {
	hc.SetHeader("WWW-Authenticate", `Bearer realm="prewarm"`)
	s.refuse(hc, huma.Error401Unauthorized(message))
}

// refuse answers with a problem before the handler runs.
func (s *server) refuse(hc huma.Context, err error) {
	if headers, has := errors.AsType[huma.HeadersError](err); has {
		for name, values := range headers.GetHeaders() {
			hc.SetHeader(name, strings.Join(values, ", "))
		}
	}
	status, message := http.StatusInternalServerError, ""
	if se, is := errors.AsType[huma.StatusError](err); is {
		status, message = se.GetStatus(), se.Error()
	}
	_ = huma.WriteErr(s.api, hc, status, message)
}

// hostOf is a remote address without its port, for the record.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
