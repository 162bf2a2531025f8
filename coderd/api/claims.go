package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/serve"
	"github.com/prewarm-dev/prewarm/database"
)

func (s *server) registerClaims() {
	answer(s, operation{
		id: "create-claim", method: http.MethodPost, path: "/claims", action: auth.ActCreateClaim, tag: "claims",
		endless: true, summary: "Claim a workspace",
		description: "Answers at once with a warm workspace (hit). If the mode is prefer, it waits for one (waited), or for one " +
			"that is built for it (cold). " +
			"One out of standby is started first, which the answer does not wait for: it says starting. The " +
			"workspace can be used when it says so no longer. " +
			"That there is none is an answer too (miss), with status 200 and a reason. With a key the request can be " +
			"repeated: it gives the same workspace. 409 if a quota is exceeded, 422 for a preset of runners, which jobs claim.",
	}, s.createClaim)
}

func (s *server) createClaim(ctx context.Context, who auth.Identity, in *body[sdk.ClaimRequest]) (sdk.Claim, error) {
	req, err := claimRequest(who, in.Body)
	if err != nil {
		return sdk.Claim{}, err
	}
	req.Gone = func() bool { return serve.Gone(ctx) }
	asked := in.Body
	if asked.Preset == "" {
		chosen, why, err := s.choosePreset(ctx, who, asked)
		switch {
		case err != nil:
			return sdk.Claim{}, err
		case why != "":
			return sdk.Claim{
				Template: asked.Template, Outcome: string(database.ClaimOutcomeMiss), Reason: why, ReasonCode: "no_such_preset",
				Addresses:   []sdk.Address{},
				Environment: map[string]string{},
			}, nil
		}
		asked.Preset, req.Names.Preset = chosen.name, chosen.name
		req.Parameters = chosen.late(req.Parameters)
	}
	if err := s.checkReceiver(ctx, who, asked, req); err != nil {
		return sdk.Claim{}, err
	}
	result, err := withPreset(ctx, s, who, asked.Template, asked.Preset, func(id uuid.UUID) (claim.Result, bool, error) {
		req.PresetID = id
		result, err := s.Claims.Claim(ctx, req)
		if err != nil {
			return result, errors.Is(err, claim.ErrKeyReused), xerrors.Errorf("claim: %w", err)
		}
		return result, result.Gone, nil
	})
	if err != nil {
		return sdk.Claim{}, err
	}
	return s.claimOf(ctx, asked, result)
}

func (s *server) claimOf(ctx context.Context, req sdk.ClaimRequest, result claim.Result) (sdk.Claim, error) {
	c := sdk.Claim{
		ClaimID: result.ClaimID, Template: req.Template, Preset: req.Preset, Outcome: string(result.Outcome),
		WaitedMS: result.Waited.Milliseconds(), Reason: result.Reason, ReasonCode: string(result.ReasonCode), Addresses: []sdk.Address{},
		Environment: map[string]string{}, LeaseUntil: result.LeaseUntil, Replaced: result.Replaced,
		Standby: result.Standby, Starting: result.Starting, Fault: result.Fault,
	}
	if result.Workspace == nil {
		c.LeaseUntil = nil
		return c, nil
	}
	c.Receipt = receiptOf(result)
	versions := map[uuid.UUID]uuid.UUID{result.Workspace.ID: result.Workspace.TemplateVersionID}
	for _, given := range result.Together {
		versions[given.Workspace.ID] = given.Workspace.TemplateVersionID
	}
	open, err := s.openOf(ctx, versions)
	if err != nil {
		return c, err
	}
	first, err := claimedOf(result.ClaimID, *result.Workspace, open[result.Workspace.ID])
	if err != nil {
		return c, err
	}
	c.WorkspaceID, c.Name, c.ProviderID = &first.WorkspaceID, first.Name, first.ProviderID
	c.Addresses, c.Environment, c.Open = first.Addresses, first.Environment, first.Open
	for _, given := range result.Together {
		w, err := claimedOf(given.ClaimID, given.Workspace, open[given.Workspace.ID])
		if err != nil {
			return c, err
		}
		w.LeaseUntil = given.LeaseUntil
		c.Workspaces = append(c.Workspaces, w)
	}
	return c, nil
}

func claimedOf(claimID uuid.UUID, w database.Workspace, open sdk.Open) (sdk.ClaimedWorkspace, error) {
	c := sdk.ClaimedWorkspace{
		ClaimID: claimID, WorkspaceID: w.ID, Name: w.Name, ProviderID: w.ProviderID, Addresses: []sdk.Address{},
		Environment: map[string]string{}, Open: open,
	}
	if err := json.Unmarshal(w.Addresses, &c.Addresses); err != nil {
		return c, xerrors.Errorf("decode addresses: %w", err)
	}
	if err := json.Unmarshal(w.Environment, &c.Environment); err != nil {
		return c, xerrors.Errorf("decode environment: %w", err)
	}
	return c, nil
}

func receiptOf(result claim.Result) *sdk.Receipt {
	var r sdk.Receipt
	if result.Receipt.Batched {
		r.QueueMS, r.StatementMS = inMS(result.Receipt.Queue), inMS(result.Receipt.Statement)
	}
	if result.Waited > 0 {
		r.WaitMS = inMS(result.Waited)
	}
	if result.Receipt.Told > 0 {
		r.ToldMS, r.HookMS = inMS(result.Receipt.Told), inMS(result.Receipt.Hook)
	}
	if r == (sdk.Receipt{}) {
		return nil
	}
	return &r
}

// inMS is in milliseconds, to the microsecond.
func inMS(d time.Duration) *float64 {
	ms := float64(d.Microseconds()) / 1000
	return &ms
}
