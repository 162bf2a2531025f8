package humanlog_test

import (
	"bytes"
	"context"
	"io"
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

// Whatever a line is made of, it stays one line for who reads it, and steers no terminal.
func TestSinks_harmless(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b[2J\u202e\u009b31m"
	for name, sink := range map[string]func(io.Writer) slog.Sink{"human": humanlog.Sink, "json": humanlog.JSON} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log := slog.Make(sink(&out))
			log.Info(t.Context(), "say "+evil, slog.F("text", evil), slog.F("line", "a\n2026-11-23 00:00:00.000 [info] forged"),
				slog.F("map", map[string]string{evil: evil}), slog.F("list", []string{evil}), slog.F("struct", struct{ A string }{evil}),
				slog.F(evil, 1), slog.Error(xerrors.Errorf("read %s: %w", evil, context.Canceled)))
			require.Contains(t, out.String(), "say x")
			require.Contains(t, out.String(), "202e")
			for _, c := range []string{"\x1b", "\u202e", "\u009b", "\n2026-11-23 00:00:00.000 [info] forged"} {
				require.NotContains(t, out.String(), c)
			}
		})
	}
}
