package replica

import (
	"context"

	"github.com/coder/quartz"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// WatchCalls counts, times and traces the calls of providers, for provider.Registry.OnCall; inventories learn from counts how
// often providers fail. What one says in an error is for the log.
func WatchCalls(reg prometheus.Registerer, clock quartz.Clock, tracer trace.Tracer, counts *inventory.Calls) provider.Watch {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prewarm_provider_calls_total",
		Help: "Calls of providers by this replica, by call and result (ok, not-found, permanent, cancelled, error).",
	}, []string{"provider", "call", "result"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "prewarm_provider_call_duration_seconds", Help: "Time that calls of providers took.",
		Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 14),
	}, []string{"provider", "call"})
	reg.MustRegister(calls, seconds)
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
	finished := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "prewarm_workspaces_finished_total", Help: "Workspaces whose claim ended by this replica's doing.",
	})
	reg.MustRegister(finished)
	return func(workspaces.Moved) { finished.Inc() }
}
