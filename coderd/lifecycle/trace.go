package lifecycle

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/database"
)

// startTrace begins the span of a job, in the trace of the pass or the person that ordered it.
func (w *Worker) startTrace(ctx context.Context, job database.Job) (context.Context, trace.Span) {
	if !w.traced {
		return ctx, trace.SpanFromContext(ctx)
	}
	return w.Tracer.Start(tracing.Continue(ctx, job.Traceparent), "job "+string(job.Kind),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			tracing.ID("prewarm.workspace_id", job.WorkspaceID), tracing.ID("prewarm.job_id", job.ID),
			attribute.String("prewarm.provider", job.Provider), attribute.Int("prewarm.attempt", int(job.Attempt)),
		))
}

// observeLeased notes how long a job lay before anybody took it, all on the database's clock: a lease ends so long after
// it was given. A job that is taken again has waited on purpose.
func (w *Worker) observeLeased(job database.Job) {
	if job.Attempt == 1 {
		waited := job.DueAt.Add(-w.Lease).Sub(job.CreatedAt)
		w.metrics.queue.WithLabelValues(string(job.Kind)).Observe(max(0, waited.Seconds()))
	}
}
