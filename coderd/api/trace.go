package api

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// traced makes a span of each request to the API, within the trace of the client if it has one. Neither path nor query
// are in it, which may hold anything, but the pattern of the operation.
func (s *server) traced(next http.Handler) http.Handler {
	if s.Tracer == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, prefix) {
			next.ServeHTTP(w, r)
			return
		}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := s.Tracer.Start(ctx, r.Method, oteltrace.WithSpanKind(oteltrace.SpanKindServer))
		defer span.End()
		rec := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(rec, r.WithContext(ctx))
		span.SetAttributes(attribute.String("http.request.method", r.Method),
			attribute.Int("http.response.status_code", answered(rec)))
		if route := chi.RouteContext(r.Context()); route != nil && route.RoutePattern() != "" {
			span.SetName(r.Method + " " + route.RoutePattern())
			span.SetAttributes(attribute.String("http.route", route.RoutePattern()))
		}
		if answered(rec) >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(answered(rec)))
		}
	})
}
