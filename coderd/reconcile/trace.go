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
	heard    bool // of another replica, which may serve the nudge itself
	trace.SpanContext
}

// Cause says in whose trace the next pass over the template is: that of whoever nudges it. Call it before the nudge.
func (r *Reconciler) Cause(ctx context.Context, template uuid.UUID) {
	header := tracing.Traceparent(ctx)
	if header == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addCause(cause{template, false, trace.SpanContextFromContext(ctx)})
	r.traces[template] = header // the nudge that follows is published with it
}

// addCause is called under the mutex.
func (r *Reconciler) addCause(c cause) {
	if c.IsSampled() && len(r.causes) < maxCauses {
		r.causes = append(r.causes, c)
	}
}

// forgetCauses drops those of nudges that another replica served: a pass over the same template, however much later, would
// be inside a trace that it has nothing to do with. A nudge that was heard since keeps its cause.
func (r *Reconciler) forgetCauses(taken map[uuid.UUID]nudged, unserved []uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes = slices.DeleteFunc(r.causes, func(c cause) bool {
		_, was := taken[c.template]
		_, again := r.nudges[c.template]
		return c.heard && was && !again && !slices.Contains(unserved, c.template)
	})
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
	ctx, span := r.Tracer.Start(ctx, "pass", opts...)
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
