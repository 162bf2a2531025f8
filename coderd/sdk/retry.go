package sdk

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

const (
	retryAttempts = 4                      // in all, the first one included
	retryFirst    = 100 * time.Millisecond // doubles each time
	retryLongest  = 2 * time.Second        // also of what a server asks for with Retry-After
)

// retry sends a request, and an idempotent one again if the server was not there or could not serve it just then: a
// replica that restarts, or a proxy whose replica does. After the last attempt it returns what that one gave.
func (c *Client) retry(
	ctx context.Context, idempotent bool, send func() (*http.Response, error),
) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := send()
		if !idempotent || attempt == retryAttempts || !worthRetry(resp, err) {
			return resp, err
		}
		pause := min(retryFirst<<(attempt-1), retryLongest)
		pause = pause/2 + rand.N(pause/2+1)
		if resp != nil {
			if asked, ok := retryAfter(resp); ok {
				pause = min(asked, retryLongest)
			}
			_ = resp.Body.Close()
		}
		if err := wait.For(ctx, c.clock(), pause, "sdk", "retry"); err != nil {
			return nil, xerrors.Errorf("wait for retry: %w", err)
		}
	}
}

func worthRetry(resp *http.Response, err error) bool {
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
	}
	return resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable
}

// retryAfter reads the header in its form of seconds; dates are not worth a clock that may be wrong.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}
