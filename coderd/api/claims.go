package api

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	defaultWait = 30 * time.Second
	// maxWait bounds a long poll; who wants to wait longer asks again with the same key.
	maxWait = 15 * time.Minute
)

func (s *server) registerClaims() {
	register(s, operation{
		id: "create-claim", method: http.MethodPost, path: "/claims", action: auth.ActCreateClaim, tag: "claims",
		endless: true, summary: "Claim a workspace",
		description: "Answers at once with a warm workspace (hit), or waits for one if the mode is prefer (waited). " +
			"That there is none is an answer too (miss), with status 200 and a reason. With a key the request can be " +
			"repeated: it gives the same workspace.",
	}, s.createClaim)
}

func (s *server) createClaim(ctx context.Context, who auth.Identity, in *body[sdk.ClaimRequest]) (*body[sdk.Claim], error) {
	req := in.Body
	wait, err := parseWait(req.Wait)
	if err != nil {
		return nil, err
	}
	presetID, _, err := s.findPreset(ctx, who, req.Template, req.Preset)
	if err != nil {
		return nil, err
	}
	if err := checkParameters(req.Parameters); err != nil {
		return nil, err
	}
	mode := database.ClaimMode(req.Mode)
	if req.Mode == "" {
		mode = database.ClaimModePrefer
	}
	result, err := s.Claims.Claim(ctx, claim.Request{
		UserID: who.UserID, Source: who.Source, OrganizationID: who.OrganizationID, PresetID: presetID, Mode: mode,
		Wait: wait, Key: req.Key, Parameters: req.Parameters,
		Names: claim.Names{Organization: who.Organization, Template: req.Template, Preset: req.Preset},
	})
	if err != nil {
		return nil, xerrors.Errorf("claim: %w", err)
	}
	answer, err := claimOf(req, result)
	if err != nil {
		return nil, err
	}
	return bodyOf(answer), nil
}

const maxClaimParameters = 100

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)

// checkParameters never repeats a value: it may be a secret.
func checkParameters(parameters map[string]string) error {
	if len(parameters) > maxClaimParameters {
		return auth.Refuse(auth.ErrInvalid, "%d parameters: at most %d are possible", len(parameters), maxClaimParameters)
	}
	size := 0
	for name, value := range parameters {
		size += len(name) + len(value)
		switch {
		case !parameterName.MatchString(name):
			return auth.Refuse(auth.ErrInvalid, "parameter name %q: use letters, digits and _ . - after a letter or _, at "+
				"most 128 characters", name)
		case strings.ContainsRune(value, 0) || !utf8.ValidString(value):
			return auth.Refuse(auth.ErrInvalid, "parameter %s must be text without a NUL character", name)
		}
	}
	if size > maxInstanceBody/2 {
		return auth.Refuse(auth.ErrInvalid, "the parameters have %d bytes: at most %d fit", size, maxInstanceBody/2)
	}
	return nil
}

func parseWait(s string) (time.Duration, error) {
	if s == "" {
		return defaultWait, nil
	}
	wait, err := time.ParseDuration(s)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, auth.Refuse(auth.ErrInvalid, "wait %q: write a duration like 30s, from 0s to %s", s, maxWait)
	}
	return wait, nil
}

func claimOf(req sdk.ClaimRequest, result claim.Result) (sdk.Claim, error) {
	c := sdk.Claim{
		ClaimID: result.ClaimID, Template: req.Template, Preset: req.Preset, Outcome: string(result.Outcome),
		WaitedMS: result.Waited.Milliseconds(), Reason: result.Reason, Addresses: []sdk.Address{},
		Environment: map[string]string{},
	}
	w := result.Workspace
	if w == nil {
		return c, nil
	}
	c.WorkspaceID, c.Name, c.ProviderID = &w.ID, w.Name, w.ProviderID
	if err := json.Unmarshal(w.Addresses, &c.Addresses); err != nil {
		return c, xerrors.Errorf("decode addresses: %w", err)
	}
	if err := json.Unmarshal(w.Environment, &c.Environment); err != nil {
		return c, xerrors.Errorf("decode environment: %w", err)
	}
	return c, nil
}
