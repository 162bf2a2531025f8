package sdk_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// unavailable answers 503 so many times, then with success; it counts the requests and checks their bodies.
func unavailable(t *testing.T, times int32, retryAfter, wantBody string) (http.HandlerFunc, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); wantBody != "" && !strings.Contains(string(body), wantBody) {
			t.Errorf("attempt %d sent body %q", requests.Load()+1, body)
		}
		if requests.Add(1) <= times {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			http.Error(w, "restarting", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "null")
	}, &requests
}

// result runs call while the mock clock is advanced through every wait before a retry, and returns these waits.
func result(t *testing.T, client *sdk.Client, call func(context.Context) error) (waits []time.Duration, err error) {
	t.Helper()
	clock := quartz.NewMock(t)
	trap := clock.Trap().NewTimer("sdk", "retry")
	defer trap.Close()
	client.Clock = clock
	ctx := testContext(t)
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	calls := make(chan *quartz.Call)
	trapCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for {
			c, err := trap.Wait(trapCtx)
			if err != nil {
				return
			}
			calls <- c
		}
	}()
	for {
		select {
		case err := <-done:
			return waits, err
		case c := <-calls:
			waits = append(waits, c.Duration)
			c.MustRelease(ctx)
			clock.Advance(c.Duration).MustWait(ctx)
		}
	}
}

func TestRetryUntilAvailable(t *testing.T) {
	t.Parallel()
	handler, requests := unavailable(t, 2, "", `"key":"k"`)
	client := newClient(t, handler)
	waits, err := result(t, client, func(ctx context.Context) error {
		_, err := client.Claim(ctx, sdk.ClaimRequest{Template: "t", Preset: "p", Key: "k"})
		return err
	})
	if err != nil || requests.Load() != 3 {
		t.Fatalf("after %d requests: %v", requests.Load(), err)
	}
	if len(waits) != 2 || waits[0] < 50*time.Millisecond || waits[1] < 100*time.Millisecond || waits[1] > time.Second {
		t.Errorf("waited %v", waits)
	}
}

func TestRetryIsBounded(t *testing.T) {
	t.Parallel()
	handler, requests := unavailable(t, 1000, "", "")
	client := newClient(t, handler)
	_, err := result(t, client, func(ctx context.Context) error { _, err := client.Presets(ctx); return err })
	if sdk.StatusOf(err) != http.StatusServiceUnavailable || requests.Load() != 4 {
		t.Fatalf("after %d requests: %v", requests.Load(), err)
	}
}

func TestRetryAfterIsHonouredWithinReason(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"1": time.Second, "0": 0, "3600": 2 * time.Second} {
		handler, _ := unavailable(t, 1, header, "")
		client := newClient(t, handler)
		waits, err := result(t, client, func(ctx context.Context) error { _, err := client.Presets(ctx); return err })
		if err != nil || len(waits) != 1 || waits[0] != want {
			t.Errorf("Retry-After %s: waited %v, %v", header, waits, err)
		}
	}
}

// What is not idempotent is sent once: a claim without a key could take two workspaces.
func TestNoRetryOfWhatIsNotIdempotent(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *sdk.Client) error{
		"claim": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.Claim(ctx, sdk.ClaimRequest{Template: "t", Preset: "p"})
			return err
		},
		"release": func(ctx context.Context, c *sdk.Client) error { _, err := c.ReleaseWorkspace(ctx, "w"); return err },
		"create token": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.CreateToken(ctx, sdk.CreateTokenRequest{Name: "n"})
			return err
		},
	} {
		handler, requests := unavailable(t, 1, "", "")
		client := newClient(t, handler)
		if err := call(testContext(t), client); sdk.StatusOf(err) != http.StatusServiceUnavailable || requests.Load() != 1 {
			t.Errorf("%s: after %d requests: %v", name, requests.Load(), err)
		}
	}
}

func TestNoRetryOfARefusal(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	client := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	})
	if _, err := client.Presets(testContext(t)); sdk.StatusOf(err) != http.StatusForbidden || requests.Load() != 1 {
		t.Fatalf("after %d requests: %v", requests.Load(), err)
	}
}

func TestRetryOfARefusedConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	client, err := sdk.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	waits, err := result(t, client, func(ctx context.Context) error { _, err := client.Presets(ctx); return err })
	if err == nil || len(waits) != 3 {
		t.Fatalf("waited %v: %v", waits, err)
	}
}

// The answer is cut off before its first byte: the claim may have happened, so only its key makes it safe to ask again.
func TestRetryOfACutConnection(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	client := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"outcome":"hit"}`)
	})
	var claim sdk.Claim
	_, err := result(t, client, func(ctx context.Context) (err error) {
		claim, err = client.Claim(ctx, sdk.ClaimRequest{Template: "t", Preset: "p", Key: "k"})
		return err
	})
	if err != nil || claim.Outcome != "hit" || requests.Load() != 2 {
		t.Fatalf("after %d requests: %+v, %v", requests.Load(), claim, err)
	}
}

func TestRetryEndsWithTheContext(t *testing.T) {
	t.Parallel()
	handler, requests := unavailable(t, 1000, "", "")
	client := newClient(t, handler)
	clock := quartz.NewMock(t)
	trap := clock.Trap().NewTimer("sdk", "retry")
	defer trap.Close()
	client.Clock = clock
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { _, err := client.Presets(ctx); done <- err }()
	trap.MustWait(ctx).MustRelease(ctx)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || requests.Load() != 1 {
		t.Fatalf("after %d requests: %v", requests.Load(), err)
	}
}
