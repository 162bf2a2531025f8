package lifecycle

import (
	"bytes"
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
	var end []byte
	err := w.call(ctx, logTimeout, func(ctx context.Context) error {
		output, err := logger.Logs(ctx, ref, false)
		if err != nil {
			return err
		}
		defer output.Close()
		end, err = tail(io.LimitReader(output, maxRead))
		return err
	})
	if err != nil {
		w.log.Debug(ctx, "read output of what failed", slog.F("workspace", ref.Name), slog.Error(err))
	}
	return database.Text(string(end))
}

// tail reads to the end and returns the last maxLog bytes, from the beginning of a line where something was left out.
func tail(r io.Reader) ([]byte, error) {
	var end []byte
	chunk := make([]byte, maxLog)
	cut := false
	for {
		n, err := io.ReadFull(r, chunk)
		end = append(end, chunk[:n]...)
		if over := len(end) - maxLog; over > 0 {
			end, cut = append(end[:0], end[over:]...), true
		}
		if err != nil {
			if _, rest, found := bytes.Cut(end, []byte("\n")); cut && found {
				end = rest
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = nil
			}
			return end, err
		}
	}
}
