package tracing

import (
	"context"
	"strings"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/xerrors"
)

const (
	scope = "github.com/prewarm-dev/prewarm"
	// flushFor bounds what a stop waits for the last spans to be sent.
	flushFor = 5 * time.Second
	// sayEvery spaces complaints about a collector that is away.
	sayEvery = time.Minute
)

// Options of Start.
type Options struct {
	// Env reads the environment (os.Getenv). The exporter reads its own part of it by itself: endpoint, headers,
	// certificates, time-outs; and the SDK the sampler.
	Env     func(string) string
	Replica string
	Version string
	Clock   quartz.Clock
	Log     slog.Logger
}

// Exporter makes tracers, and sends what they record.
type Exporter struct{ provider *sdktrace.TracerProvider }

// Start starts to export if the environment names a collector, and is off otherwise. A collector that is away stops
// nothing.
func Start(ctx context.Context, o Options) (*Exporter, error) {
	on, err := wanted(o.Env)
	if err != nil || !on {
		return &Exporter{}, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, xerrors.Errorf("start to export traces (see the variables OTEL_EXPORTER_OTLP_…): %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "prewarm"), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Replica),
	), resource.WithFromEnv()) // what the environment says wins
	if err != nil {
		return nil, xerrors.Errorf("say whose traces these are (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	otel.SetErrorHandler(&complaints{clock: o.Clock, log: o.Log.Named("tracing")})
	return &Exporter{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))}, nil
}

// wanted says whether the standard environment asks for traces.
func wanted(env func(string) string) (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := env("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "", "otlp":
		if exporter == "" && env("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, xerrors.Errorf("OTEL_TRACES_EXPORTER is %q: it is otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := env(name); protocol != "" && protocol != "http/protobuf" {
			return false, xerrors.Errorf("%s is %q: only http/protobuf is spoken", name, protocol)
		}
	}
	return true, nil
}

// Tracer returns the tracer of everything; one that records nothing where traces are off.
func (e *Exporter) Tracer() trace.Tracer {
	if e.provider == nil {
		return Off()
	}
	return e.provider.Tracer(scope)
}

// On says whether anything is exported.
func (e *Exporter) On() bool { return e.provider != nil }

// Stop sends what is left, for some seconds.
func (e *Exporter) Stop(ctx context.Context) error {
	if e.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushFor)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		return xerrors.Errorf("send the last traces: %w", err)
	}
	return nil
}

// complaints logs what the exporter can't do, now and then.
type complaints struct {
	clock quartz.Clock
	log   slog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle is called by the SDK, in its own goroutine.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now("tracing", "complaint")
	if !c.last.IsZero() && now.Sub(c.last) < sayEvery {
		return
	}
	c.last = now
	c.log.Warn(context.Background(), "traces are lost", slog.Error(err))
}
