package instance

import (
	"context"
	"encoding/json"
	"errors"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

// ErrClaimMismatch: a report speaks of a claim that does not hold the workspace. The agent should ask again.
var ErrClaimMismatch = errors.New("the report is about a claim that does not hold the workspace")

// Report is what an agent says.
type Report struct {
	Status     database.AgentStatus
	Message    string
	SystemInfo json.RawMessage // nil: as before
	ClaimID    uuid.UUID       // that it knows of; zero for none
	// SecretsWritten: those of that claim are in the workspace.
	SecretsWritten bool
}

// Report records a report and what follows from it. It returns a new token where the one used is not of the newest key,
// else nothing.
func (s *Service) Report(ctx context.Context, i Instance, r Report) (token string, err error) {
	aboutClaim := r.Status == database.AgentStatusClaimReady || r.Status == database.AgentStatusClaimFailed
	if r.ClaimID != i.claimOf() && (aboutClaim || r.ClaimID != uuid.Nil) {
		return "", ErrClaimMismatch
	}
	before, err := instancedb.New(s.Store).ReportAgent(ctx, instancedb.ReportAgentParams{
		WorkspaceID: i.WorkspaceID, Incarnation: i.Bearer.Incarnation, Attempt: i.Bearer.Attempt, KeyID: i.KeyID,
		Status: r.Status, Message: r.Message, SystemInfo: r.SystemInfo,
		ClaimID: uuid.NullUUID{UUID: r.ClaimID, Valid: r.ClaimID != uuid.Nil},
	})
	if database.NoRows(err) {
		return "", refuse("a later attempt to create workspace %s has begun", i.Name)
	}
	if err != nil {
		return "", xerrors.Errorf("record report: %w", err)
	}
	if r.SecretsWritten && r.ClaimID != uuid.Nil { // said until it was answered
		if _, err := instancedb.New(s.Store).WipeSecrets(ctx, r.ClaimID); err != nil {
			return "", xerrors.Errorf("wipe secrets: %w", err)
		}
	}
	s.metrics.reports.WithLabelValues(string(r.Status)).Inc()
	if before != r.Status {
		if err := s.changed(ctx, i, r); err != nil {
			return "", err
		}
	}
	// What has no agent runs a script of its image or provider, which may say so of what it alone wanted: it is shown.
	if r.Status == database.AgentStatusUnhealthy && i.State == database.WorkspaceStateReady && i.HeartbeatTimeoutS != unheard {
		if err := s.drain(ctx, i, r.Message); err != nil {
			return "", err
		}
	}
	return s.renew(ctx, i.Bearer)
}

// changed acts on a status that is another than before.
func (s *Service) changed(ctx context.Context, i Instance, r Report) error {
	switch r.Status {
	case database.AgentStatusReady, database.AgentStatusUnhealthy:
		n, err := instancedb.New(s.Store).ProbeNow(ctx, i.WorkspaceID)
		if err != nil {
			return xerrors.Errorf("hasten probe: %w", err)
		}
		if n > 0 {
			s.Hints.Wake()
		}
	case database.AgentStatusClaimFailed:
		s.metrics.claimFailures.Inc()
	default: // nothing waits for the others
	}
	if i.State == database.WorkspaceStateClaimed &&
		(r.Status == database.AgentStatusUnhealthy || r.Status == database.AgentStatusClaimFailed) {
		s.Log.Warn(ctx, "a claimed workspace has trouble, and is left to its owner", slog.F("workspace", i.Name),
			slog.F("status", r.Status), slog.F("message", r.Message))
	}
	return nil
}

// drain takes a ready workspace out that says it is broken. A claim that comes first wins (I2).
func (s *Service) drain(ctx context.Context, i Instance, message string) error {
	_, err := s.Writer.Drain(ctx, s.Store, i.WorkspaceID, i.Bearer.Incarnation,
		"the agent reports that it is unhealthy: "+message)
	if errors.Is(err, workspaces.ErrLost) {
		return nil
	}
	if err != nil {
		return xerrors.Errorf("drain unhealthy workspace: %w", err)
	}
	s.Hints.Wake()
	s.Hints.Nudge(i.TemplateID)
	return nil
}

// renew makes a token of the newest key for one that is of an older.
func (s *Service) renew(ctx context.Context, b Bearer) (string, error) {
	key, err := s.keys.newest(ctx)
	if err != nil || key.ID == b.KeyID {
		return "", err
	}
	token, _, err := s.sign(ctx, b)
	return token, err
}
