package tracing

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// Off is a tracer that records nothing.
func Off() trace.Tracer { return noop.NewTracerProvider().Tracer("") }

// OrOff is t, or Off where it is nil.
func OrOff(t trace.Tracer) trace.Tracer {
	if t == nil {
		return Off()
	}
	return t
}

const traceparent = "traceparent"

// Traceparent is the W3C header of the trace that ctx is in, empty if it is in none that is recorded.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// Continue returns ctx in the trace of that header. Nil and what is no header change nothing.
func Continue(ctx context.Context, header *string) context.Context {
	if header == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: *header})
}

// Parse reads such a header. What is none is a context that is not sampled.
func Parse(header string) trace.SpanContext {
	if header == "" {
		return trace.SpanContext{}
	}
	nowhere := trace.ContextWithSpanContext(context.Background(), trace.SpanContext{})
	return trace.SpanContextFromContext(Continue(nowhere, &header))
}

// Carry makes the jobs that this transaction inserts belong to the trace of ctx. Without one it does nothing.
func Carry(ctx context.Context, db database.DBTX) error {
	header := Traceparent(ctx)
	if header == "" {
		return nil
	}
	if err := database.New(db).SetTraceparent(ctx, header); err != nil {
		return xerrors.Errorf("carry trace: %w", err)
	}
	return nil
}

// End ends a span with the outcome of what it stands for. An end that was asked for is no error.
func End(span trace.Span, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		span.SetStatus(codes.Error, kindOf(err))
	}
	span.End()
}

// kindOf says what went wrong without saying what was in it: messages of providers are for the log.
func kindOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	case database.IsConnection(err):
		return "database away"
	}
	return "error"
}

// ID is an attribute that holds an id.
func ID(key string, id uuid.UUID) attribute.KeyValue { return attribute.String(key, id.String()) }
