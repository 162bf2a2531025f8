package replica

import (
	"context"

	"github.com/coder/quartz"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/metric"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// WatchCalls counts, times and traces the calls of providers, for provider.Registry.OnCall; inventories learn from counts how
// often providers fail. What one says in an error is for the log.
func WatchCalls(reg prometheus.Registerer, clock quartz.Clock, tracer trace.Tracer, counts *inventory.Calls) provider.Watch {
	f := metric.New(reg)
	calls := f.Counters("prewarm_provider_calls_total",
		"Calls of providers by this replica, by call and result (ok, not-found, permanent, cancelled, error).",
		"provider", "call", "result")
	seconds := f.Histograms("prewarm_provider_call_duration_seconds",
		"Time that calls of providers took.", prometheus.ExponentialBuckets(0.002, 2.5, 14), "provider", "call")
	return func(ctx context.Context, name, call string) (context.Context, func(error)) {
		start := clock.Now("provider", "call")
		ctx, span := tracer.Start(ctx, "provider "+call, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attribute.String("prewarm.provider", name)))
		return ctx, func(err error) {
			result := provider.Result(ctx, err)
			counts.Add(name, result)
			calls.WithLabelValues(name, call, result).Inc()
			seconds.WithLabelValues(name, call).Observe(clock.Since(start, "provider", "call").Seconds())
			span.SetAttributes(attribute.String("prewarm.result", result))
			if result != "ok" && result != "not-found" {
				span.SetStatus(codes.Error, result)
			}
			span.End()
		}
	}
}

// countFinished counts the workspaces whose claim is over (A8): they are collected.
func countFinished(reg prometheus.Registerer) func(workspaces.Moved) {
	finished := metric.New(reg).Counter("prewarm_workspaces_finished_total", "Workspaces whose claim ended by this replica's doing.")
	return func(workspaces.Moved) { finished.Inc() }
}
