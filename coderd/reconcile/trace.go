package reconcile

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/tracing"
)

// maxCauses bounds how many traces one pass is linked to.
const maxCauses = 64

// cause is the trace of something that nudged a template.
type cause struct {
	template uuid.UUID
	trace.SpanContext
}

// Cause says in whose trace the next pass over the template is: that of whoever nudges it. Call it before the nudge.
func (r *Reconciler) Cause(ctx context.Context, template uuid.UUID) {
	header := tracing.Traceparent(ctx)
	if header == "" {
		return
	}
	r.addCause(template, trace.SpanContextFromContext(ctx))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces[template] = header // the nudge that follows is published with it
}

func (r *Reconciler) addCause(template uuid.UUID, span trace.SpanContext) {
	if !span.IsSampled() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.causes) < maxCauses {
		r.causes = append(r.causes, cause{template, span})
	}
}

// startTrace begins the span of a pass, inside the trace of the oldest cause and linked to the others. It returns the
// causes, for endTrace.
func (r *Reconciler) startTrace(ctx context.Context, trigger string, templates []uuid.UUID) (context.Context, trace.Span, []cause) {
	r.mu.Lock()
	var taken []cause
	r.causes = slices.DeleteFunc(r.causes, func(c cause) bool {
		mine := templates == nil || slices.Contains(templates, c.template)
		if mine {
			taken = append(taken, c)
		}
		return mine
	})
	r.mu.Unlock()
	opts := []trace.SpanStartOption{trace.WithAttributes(attribute.String("prewarm.trigger", trigger))}
	for i, c := range taken {
		if i == 0 {
			ctx = trace.ContextWithRemoteSpanContext(ctx, c.SpanContext)
			continue
		}
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: c.SpanContext}))
	}
	ctx, span := r.tracer.Start(ctx, "pass", opts...)
	return ctx, span, taken
}

// endTrace ends the span. A pass that did nothing, or that another replica is at, leaves none: a span that is not ended is
// never sent. One that failed gives its causes back to the next.
func (r *Reconciler) endTrace(span trace.Span, taken []cause, res Result, err error) {
	if err != nil && len(taken) > 0 {
		r.mu.Lock()
		r.causes = append(taken, r.causes...)
		r.mu.Unlock()
	}
	if errors.Is(err, errBusy) || err == nil && res.Created+res.Intents+res.Moves == 0 {
		return
	}
	span.SetAttributes(attribute.Int64("prewarm.seq", res.Seq), attribute.Bool("prewarm.full", res.Full),
		attribute.Int("prewarm.presets", res.Presets), attribute.Int("prewarm.created", res.Created),
		attribute.Int("prewarm.intents", res.Intents), attribute.Int("prewarm.reruns", res.Reruns))
	tracing.End(span, err)
}
