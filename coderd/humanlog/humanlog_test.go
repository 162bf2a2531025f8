package humanlog_test

import (
	"bytes"
	"context"
	"testing"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/humanlog"
)

// Whatever kind of value an error is, its line says what it says.
func TestSink_saysErrors(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.Make(humanlog.Sink(&out)).With(slog.F("cause", context.DeadlineExceeded))
	log.Warn(context.Background(), "lease jobs", slog.Error(context.DeadlineExceeded), slog.F("of", struct{ A int }{1}))
	log.Warn(context.Background(), "wrapped", slog.Error(xerrors.Errorf("read: %w", context.Canceled)), slog.F("id", uuid.Nil))
	require.Contains(t, out.String(), `cause="context deadline exceeded"  error="context deadline exceeded"  of={"A":1}`)
	require.Contains(t, out.String(), "read:")
	require.Contains(t, out.String(), "context canceled")
	require.Contains(t, out.String(), "id=00000000-0000-0000-0000-000000000000")
}
