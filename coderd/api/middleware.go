package api

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"

	"cdr.dev/slog"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// trace is what is known of a request for its line in the log. The user is noted when it is known.
type trace struct {
	id   string
	user string
}

var traceKey = &contextKey{"trace"}

// givenID is what is accepted of an id that a proxy gave; anything else could forge lines of the log.
var givenID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (*server) requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &trace{id: r.Header.Get("X-Request-Id")}
		if !givenID.MatchString(t.id) {
			t.id = uuid.NewString()
		}
		w.Header().Set("X-Request-Id", t.id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), traceKey, t)))
	})
}

func requestIDOf(ctx context.Context) string {
	if t, ok := ctx.Value(traceKey).(*trace); ok {
		return t.id
	}
	return ""
}

func noteUser(ctx context.Context, user string) {
	if t, ok := ctx.Value(traceKey).(*trace); ok {
		t.user = user
	}
}

// accessLog writes a line per request: at level debug where all went well (see Options.LogRequests), since what was changed
// stands in the audit log. Queries and headers are left out, since they may hold secrets.
func (s *server) accessLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.Clock.Now("api", "request")
		rec := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(rec, r)
		write := s.Log.Debug
		switch status := answered(rec); {
		case status >= http.StatusInternalServerError:
			write = s.Log.Warn
		case status >= http.StatusBadRequest:
			write = s.Log.Info
		case !s.LogRequests:
			return
		}
		t, _ := r.Context().Value(traceKey).(*trace)
		write(r.Context(), "request", slog.F("request", t.id), slog.F("method", r.Method), slog.F("path", r.URL.Path),
			slog.F("status", answered(rec)), slog.F("bytes", rec.BytesWritten()), slog.F("user", t.user),
			slog.F("remote", hostOf(r.RemoteAddr)), slog.F("took", s.Clock.Since(start, "api", "request")))
	})
}

// answered is the status of an answer; one that was written without a status is a 200.
func answered(w middleware.WrapResponseWriter) int { return cmp.Or(w.Status(), http.StatusOK) }

// recoverPanics keeps a panic of one request from being anything else's.
func (s *server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // It is compared as net/http does.
				panic(p)
			}
			s.Log.Critical(r.Context(), "request panicked", slog.F("request", requestIDOf(r.Context())),
				slog.F("panic", p), slog.F("stack", string(debug.Stack())))
			if rec, ok := w.(middleware.WrapResponseWriter); !ok || rec.Status() == 0 {
				writeProblem(w, http.StatusInternalServerError,
					"something went wrong in the server; its log says more at request "+requestIDOf(r.Context()))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// securityHeaders are for browsers: nothing that is served here is to be framed, guessed at, cached, referred to, or put into a
// page of another origin. A page that needs more than nothing loosens the policy for itself.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// limitBody refuses a body that says it is too big before a byte of it is read. One that does not say is cut off where
// it is read. Uploads have no limit.
func (s *server) limitBody(router chi.Routes) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > maxBody && !s.uploads[r.Method+" "+router.Find(chi.NewRouteContext(), r.Method, r.URL.Path)] {
				w.Header().Set("Connection", "close")
				writeProblem(w, http.StatusRequestEntityTooLarge, "the body is too large: at most 1 MiB is read")
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// methods are all that an operation may have.
var methods = []string{
	http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost, http.MethodPut,
}

// methodNotAllowed says which methods there are.
func methodNotAllowed(router chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allowed := lists.Only(methods, func(method string) bool { return router.Match(chi.NewRouteContext(), method, r.URL.Path) })
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, http.StatusMethodNotAllowed, r.URL.Path+" has no "+r.Method+", only "+strings.Join(allowed, ", "))
	}
}
