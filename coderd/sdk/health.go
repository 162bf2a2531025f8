package sdk

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"golang.org/x/xerrors"
)

// Health is what a server says of itself to who has no token.
type Health struct {
	Ready   bool      // it wants requests
	Reasons []string  // why not
	Version string    // of its binary
	At      time.Time // its clock, in whole seconds; zero where it does not say
}

// Health asks once, without retries: who asks wants to hear that it fails.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	ready := struct {
		Ready   *bool    `json:"ready"`
		Reasons []string `json:"reasons"`
	}{}
	at, err := c.healthOf(ctx, "readyz", &ready)
	if err != nil {
		return h, err
	}
	if ready.Ready == nil {
		return h, xerrors.Errorf("ask for health: %s is no Prewarm server", c.URL)
	}
	alive := struct {
		Version string `json:"version"`
	}{}
	if _, err := c.healthOf(ctx, "healthz", &alive); err != nil {
		return h, err
	}
	return Health{Ready: *ready.Ready, Reasons: ready.Reasons, Version: alive.Version, At: at}, nil
}

func (c *Client) healthOf(ctx context.Context, path string, into any) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL.JoinPath(path).String(), nil)
	if err != nil {
		return time.Time{}, xerrors.Errorf("build request: %w", err)
	}
	req.Header.Set("User-Agent", c.UserAgent)
	resp, err := c.httpClient().Do(req)
	if err != nil {
		return time.Time{}, xerrors.Errorf("call server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, errorLimit))
	if err != nil {
		return time.Time{}, xerrors.Errorf("read health: %w", err)
	}
	if json.Unmarshal(body, into) != nil {
		return time.Time{}, xerrors.Errorf("ask for health: %s answered %d to /%s, and is no Prewarm server", c.URL, resp.StatusCode, path)
	}
	at, _ := http.ParseTime(resp.Header.Get("Date"))
	return at, nil
}
