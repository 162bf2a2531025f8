package claim

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/tracing"
)

// startTrace begins the span of a claim: from here a trace leads over the pass that it causes to the provider.
func (s *Service) startTrace(ctx context.Context, req Request) (context.Context, trace.Span) {
	return s.Tracer.Start(ctx, "claim", trace.WithAttributes(
		attribute.String("prewarm.template", req.Names.Template), attribute.String("prewarm.preset", req.Names.Preset),
		attribute.String("prewarm.mode", string(req.Mode)),
	))
}

func (*Service) endTrace(span trace.Span, res Result, err error) {
	span.SetAttributes(attribute.String("prewarm.outcome", string(res.Outcome)), tracing.ID("prewarm.claim_id", res.ClaimID))
	if res.Workspace != nil {
		span.SetAttributes(tracing.ID("prewarm.workspace_id", res.Workspace.ID))
	}
	tracing.End(span, err)
}
