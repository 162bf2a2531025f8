package api

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	defaultWait = 30 * time.Second
	// defaultColdWait is for a workspace that is built first.
	defaultColdWait = 10 * time.Minute
	// maxWait bounds a long poll; who wants to wait longer asks again with the same key.
	maxWait = 15 * time.Minute
	// maxLease is long enough for a person, and ends what everybody has forgotten.
	maxLease = 365 * 24 * time.Hour

	maxClaimParameters = 100
)

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)

// claimRequest checks what a client asks for, as far as that needs no database. Nothing in its errors is the value of a
// parameter, which may be a secret.
func claimRequest(who auth.Identity, in sdk.ClaimRequest) (claim.Request, error) {
	req := claim.Request{
		UserID: who.UserID, Source: who.Source, OrganizationID: who.OrganizationID, Mode: database.ClaimMode(in.Mode),
		Key: in.Key, Parameters: in.Parameters, Secrets: in.Secrets, Cold: in.Cold, Count: in.Count,
		Names: claim.Names{Organization: who.Organization, Template: in.Template, Preset: in.Preset},
	}
	if in.Mode == "" {
		req.Mode = database.ClaimModePrefer
	}
	switch {
	case in.Cold && req.Mode != database.ClaimModePrefer:
		return req, auth.Refuse(auth.ErrInvalid, "cold goes with mode prefer: mode %s says already what happens where none is "+
			"warm", req.Mode)
	case in.Preset != "" && len(in.PresetParameters) > 0:
		return req, auth.Refuse(auth.ErrInvalid, "preset and preset_parameters both choose a preset: give one of them")
	case in.Count > 1 && in.WaitReady != "":
		return req, auth.Refuse(auth.ErrInvalid, "wait_ready goes with one workspace, not with a count of %d", in.Count)
	}
	var err error
	most := defaultWait
	if in.Cold || req.Mode == database.ClaimModeBypass {
		most = defaultColdWait
	}
	if req.Wait, err = claimDuration("wait", in.Wait, most, 0, maxWait); err != nil {
		return req, err
	}
	if in.Mode == string(database.ClaimModeBypass) && req.Wait <= 0 {
		return req, auth.Refuse(auth.ErrInvalid, "wait %q: with mode bypass a workspace is built first, so there must be time "+
			"for it", in.Wait)
	}
	if req.Lease, err = claimDuration("lease", in.Lease, 0, time.Second, maxLease); err != nil {
		return req, err
	}
	if req.WaitReady, err = claimDuration("wait_ready", in.WaitReady, 0, time.Second, maxWait); err != nil {
		return req, err
	}
	if err := checkParameters("parameter", in.Parameters); err != nil {
		return req, err
	}
	if err := checkParameters("secret", in.Secrets); err != nil {
		return req, err
	}
	return req, checkParameters("preset parameter", in.PresetParameters)
}

// claimDuration reads a duration of a claim; empty is the one to use then.
func claimDuration(what, text string, empty, least, most time.Duration) (time.Duration, error) {
	if text == "" {
		return empty, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		return 0, auth.Refuse(auth.ErrInvalid, "%s %q: write a duration like 30s, from %s to %s", what, text, least, most)
	}
	return d, nil
}

// checkParameters never repeats a value: it may be a secret.
func checkParameters(what string, parameters map[string]string) error {
	if len(parameters) > maxClaimParameters {
		return auth.Refuse(auth.ErrInvalid, "%d %ss: at most %d are possible", len(parameters), what, maxClaimParameters)
	}
	size := 0
	for name, value := range parameters {
		size += len(name) + len(value)
		switch {
		case !parameterName.MatchString(name):
			return auth.Refuse(auth.ErrInvalid, "%s name %q: use letters, digits and _ . - after a letter or _, at "+
				"most 128 characters", what, name)
		case strings.ContainsRune(value, 0) || !utf8.ValidString(value):
			return auth.Refuse(auth.ErrInvalid, "%s %s must be text without a NUL character", what, name)
		}
	}
	if size > maxInstanceBody/2 {
		return auth.Refuse(auth.ErrInvalid, "the %ss have %d bytes: at most %d fit", what, size, maxInstanceBody/2)
	}
	return nil
}

// checkReceiver refuses parameters and secrets that nobody would take (C14), and secrets that others could read.
func (s *server) checkReceiver(ctx context.Context, who auth.Identity, in sdk.ClaimRequest, req claim.Request) error {
	if len(req.Parameters) == 0 && len(req.Secrets) == 0 {
		return nil
	}
	id, _, err := s.findPreset(ctx, who, in.Template, in.Preset)
	if err != nil {
		return err
	}
	pool, err := viewsdb.New(s.Store).PoolView(ctx, id)
	if err != nil {
		return xerrors.Errorf("read pool: %w", err)
	}
	p, err := s.Providers.Get(pool.Provider)
	known := err == nil // else another replica has it, and its word on it
	if !pool.HasAgent {
		if len(req.Secrets) > 0 {
			return auth.Refuse(auth.ErrInvalid, "template %s has no agent, so nobody in the workspace would receive secrets: add "+
				"an agent to the template, or claim without", in.Template)
		}
		_, asks := provider.As[provider.TokenTaker](p) // what it makes may read them by its token
		if known && !asks {
			return auth.Refuse(auth.ErrInvalid, "template %s has no agent, so nobody in the workspace would receive parameter %s: "+
				"add an agent to the template, or claim without", in.Template, slices.Min(slices.Collect(maps.Keys(req.Parameters))))
		}
	}
	if !known || len(req.Secrets) == 0 {
		return nil
	}
	if i, ok := provider.As[provider.Isolator](p); ok && i.Isolated() != nil {
		return auth.Refuse(auth.ErrConflict, "provider %s cannot be sure to end all that earlier users of its workspaces started, "+
			"which could read a secret: %v. Leave the secrets out, or have the server's machine allow namespaces "+
			"(docs/providers/local.md)", pool.Provider, i.Isolated())
	}
	return nil
}

// chosenPreset is a preset that parameters chose, and those of them that it does not have itself.
type chosenPreset struct {
	name string
	rest map[string]string
}

// late are the parameters for the agent: what was said to be for it comes before what the preset does not have.
func (c chosenPreset) late(given map[string]string) map[string]string {
	if len(c.rest) == 0 {
		return given
	}
	all := maps.Clone(c.rest)
	maps.Copy(all, given)
	return all
}
