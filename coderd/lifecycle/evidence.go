package lifecycle

import (
	"cmp"
	"context"
	"io"
	"time"

	"cdr.dev/slog"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	// maxLog is how much is kept of the output of what failed, in bytes, from its end.
	maxLog = 16 << 10
	// maxRead bounds how much output is read to find its end.
	maxRead = 64 << 20
	// logTimeout bounds how long the output may take. It is evidence, and a failure is recorded without it too.
	logTimeout = 10 * time.Second
)

// lastOutput is the end of what a workspace wrote; empty where the provider keeps no output, or does not tell.
func (w *Worker) lastOutput(ctx context.Context, j *work) string {
	if j.provider == nil {
		return ""
	}
	logger, ok := provider.As[provider.Logger](j.provider)
	if !ok {
		return ""
	}
	ref := j.ref
	ref.ProviderID = cmp.Or(ref.ProviderID, j.made)
	end := &provider.Tail{Limit: maxLog}
	err := w.call(ctx, logTimeout, func(ctx context.Context) error {
		output, err := logger.Logs(ctx, ref, false)
		if err != nil {
			return err
		}
		defer output.Close()
		_, err = io.Copy(end, io.LimitReader(output, maxRead))
		return err
	})
	if err != nil {
		w.log.Debug(ctx, "read output of what failed", slog.F("workspace", ref.Name), slog.Error(err))
	}
	return database.Text(end.String())
}
