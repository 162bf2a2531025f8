package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"golang.org/x/xerrors"
)

// Provider is a configured place where workspaces live. Its configuration is not shown: it may hold secrets.
type Provider struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind" example:"local"`
	Can   []string `json:"can" doc:"What it can do beyond making and deleting: exec, logs, stop, reset"`
	Error string   `json:"error,omitempty" doc:"Why it does not work on this replica"`
}

// CheckRequest says of what a check makes its workspaces: of a preset, or where both are empty of the first one of the
// provider's templates.
type CheckRequest struct {
	Template string `json:"template,omitempty" maxLength:"64"`
	Preset   string `json:"preset,omitempty" maxLength:"64"`
}

// CheckVerdict is what came of one case of a check.
type CheckVerdict struct {
	Case    string `json:"case" example:"CreateTwiceIsOne"`
	About   string `json:"about" doc:"What holds if it passed"`
	Outcome string `json:"outcome" enum:"passed,failed,not_offered"`
	Detail  string `json:"detail,omitempty" doc:"Of a failure"`
	TookMS  int64  `json:"took_ms"`
}

// Providers lists the configured providers.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	var providers []Provider
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"providers"}, into: &providers, idempotent: true})
	return providers, err
}

// CheckProvider runs the safe cases of the provider contract and calls report with each verdict as it comes. Ending ctx
// ends the check, after what it made is deleted.
func (c *Client) CheckProvider(ctx context.Context, name string, req CheckRequest, report func(CheckVerdict) error) error {
	resp, err := c.send(ctx, call{method: http.MethodPost, path: []string{"providers", name, "check"}, body: req})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := json.NewDecoder(resp.Body); ; {
		var v CheckVerdict
		if err := lines.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return xerrors.Errorf("read verdicts of provider %s: %w", name, err)
		}
		if err := report(v); err != nil {
			return err
		}
	}
}
