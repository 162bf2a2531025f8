package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// The instance API speaks with workspaces, not with people: its tokens are of another kind, and neither kind is good for
// the other's operations.

const maxInstanceBody = 64 << 10 // bytes

var instanceKey = &contextKey{"instance"}

type eventsInput struct {
	Known uuid.UUID `query:"known" doc:"The claim that the agent knows of; none where empty"`
}

func (s *server) registerInstance() {
	registerForInstance(s, operation{
		id: "report-instance", method: http.MethodPost, path: "/instance/status", action: auth.ActReportInstance,
		summary: "Report how a workspace is, and that it lives",
		description: "The first `ready` makes a starting workspace claimable. A ready one that is `unhealthy` is replaced; " +
			"of a claimed one people are notified. An answer with a token means: use this one from now on.",
	}, s.reportInstance)
	registerForInstance(s, operation{
		id: "get-instance-metadata", method: http.MethodGet, path: "/instance/metadata", action: auth.ActReadInstance,
		summary:     "Read what a workspace may know of itself",
		description: "With owner, claim and its parameters while it is claimed.",
	}, s.instanceMetadata)
	registerForInstance(s, operation{
		id: "wait-instance-events", method: http.MethodGet, path: "/instance/events", action: auth.ActReadInstance,
		endless: true, summary: "Wait until a workspace is claimed",
		description: "Answers at once if the workspace is held by another claim than the one that is known. Else it answers when it is, " +
			"or after some 25 s with what is so then. The answer is read from the database, so that nothing is missed by not " +
			"being connected: ask again with what you know.",
	}, s.instanceEvents)
}

// registerForInstance is register for operations of the instance API.
func registerForInstance[I, O any](
	s *server, op operation, handle func(ctx context.Context, i instance.Instance, in *I) (*O, error),
) {
	op.tag = "instance"
	registerAs(s, op, instanceKey, huma.Operation{
		MaxBodyBytes: maxInstanceBody,
		Security:     []map[string][]string{{"instance": {}}},
		Errors: []int{
			http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable,
		},
		Middlewares: huma.Middlewares{s.deadline(op), s.authenticateInstance},
	}, handle)
}

// authenticateInstance finds out for which workspace is asked.
func (s *server) authenticateInstance(hc huma.Context, next func(huma.Context)) {
	token := bearer(hc)
	if token == "" {
		s.unauthorized(hc, "an instance token is needed: send it as `Authorization: Bearer …`")
		return
	}
	i, err := s.Instances.Authenticate(hc.Context(), token)
	if errors.Is(err, instance.ErrNotAToken) {
		s.refuseUser(hc, token)
		return
	}
	if err != nil {
		s.refuse(hc, s.problem(hc.Context(), err))
		return
	}
	noteUser(hc.Context(), i.Name)
	next(huma.WithValue(hc, instanceKey, i))
}

// refuseUser refuses what is no instance token, and says so to a user who comes with a good one.
func (s *server) refuseUser(hc huma.Context, token string) {
	if _, err := s.Auth.Authenticate(hc.Context(), auth.Secret(token)); err == nil {
		s.refuse(hc, huma.Error403Forbidden("this is for workspaces: only instance tokens may do it, and yours is a user's"))
		return
	}
	s.unauthorized(hc, instance.ErrNotAToken.Error())
}

func bearer(hc huma.Context) string { return bearerOf(hc.Header("Authorization")) }

func bearerOf(authorization string) string {
	scheme, secret, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

func (s *server) reportInstance(
	ctx context.Context, i instance.Instance, in *body[sdk.AgentReport],
) (*body[sdk.AgentReceipt], error) {
	report := instance.Report{
		Status: statusOf(in.Body.Status), Message: in.Body.Message, SecretsWritten: in.Body.SecretsWritten,
		ClaimID: database.OrZero(in.Body.ClaimID),
	}
	if info := in.Body.SystemInfo; info != nil {
		var object map[string]any
		if json.Unmarshal(info, &object) != nil || object == nil {
			return nil, auth.Refuse(auth.ErrInvalid, "system_info must be an object")
		}
		report.SystemInfo = info
	}
	token, err := s.Instances.Report(ctx, i, report)
	if err != nil {
		return nil, xerrors.Errorf("report: %w", err)
	}
	if err := s.reportedAsRunner(ctx, i, in.Body.Status); err != nil {
		return nil, s.runnerProblem(ctx, err)
	}
	return bodyOf(sdk.AgentReceipt{Token: token}), nil
}

func (s *server) instanceMetadata(
	ctx context.Context, i instance.Instance, _ *none,
) (*body[sdk.InstanceMetadata], error) {
	row, err := s.Instances.Metadata(ctx, i)
	if err != nil {
		return nil, err
	}
	m := sdk.InstanceMetadata{
		WorkspaceID: row.ID, Name: row.Name, Incarnation: int(row.Incarnation), State: string(row.State),
		Organization: row.Organization, Template: row.Template, Preset: row.Preset, Version: int(row.Version),
		Parameters: map[string]string{}, CABundle: string(s.Instances.CABundle),
		ForgeCABundle: row.ForgeCaBundle,
		Labels: map[string]string{
			"organization": row.Organization, "template": row.Template, "preset": row.Preset, "workspace": row.Name,
		},
	}
	if err := json.Unmarshal(row.Parameters, &m.Parameters); err != nil {
		return nil, xerrors.Errorf("decode parameters: %w", err)
	}
	config, err := agentConfigOf(row.Agent)
	if err != nil {
		return nil, err
	}
	m.Agent = database.OrZero(config)
	if m.Claim, err = instanceClaimOf(row); err != nil {
		return nil, err
	}
	return bodyOf(m), nil
}

func (s *server) instanceEvents(
	ctx context.Context, i instance.Instance, in *eventsInput,
) (*body[sdk.InstanceEvents], error) {
	i, err := s.Instances.Await(ctx, i, in.Known)
	if err != nil {
		return nil, xerrors.Errorf("wait for events: %w", err)
	}
	row, err := s.Instances.Metadata(ctx, i)
	if err != nil {
		return nil, err
	}
	claim, err := instanceClaimOf(row)
	if err != nil {
		return nil, err
	}
	return bodyOf(sdk.InstanceEvents{State: string(row.State), Claim: claim}), nil
}

// agentConfigOf is nil where a version has no agent.
func agentConfigOf(raw json.RawMessage) (*sdk.AgentConfig, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // There is none.
	}
	var c sdk.AgentConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, xerrors.Errorf("decode agent: %w", err)
	}
	return &c, nil
}

// instanceClaimOf is nil unless the workspace is claimed.
func instanceClaimOf(row viewsdb.InstanceMetadataRow) (*sdk.InstanceClaim, error) {
	if row.State != database.WorkspaceStateClaimed || !row.ClaimID.Valid || row.ClaimedAt == nil {
		return nil, nil //nolint:nilnil // Not claimed.
	}
	c := &sdk.InstanceClaim{
		ClaimID: row.ClaimID.UUID, OwnerID: row.OwnerID, Owner: row.Owner, ClaimedAt: *row.ClaimedAt,
		Parameters: map[string]string{},
	}
	for _, raw := range []json.RawMessage{row.Parameters, row.ClaimParameters} {
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, &c.Parameters); err != nil {
			return nil, xerrors.Errorf("decode parameters: %w", err)
		}
	}
	if row.Secrets != nil {
		if err := json.Unmarshal(row.Secrets, &c.Secrets); err != nil {
			return nil, xerrors.New("decode secrets: they are not texts") // without what they are
		}
	}
	return c, nil
}
