package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// follows is what follows from a verdict once two inventories agree on it: for people, and what does it; nil: nothing is done.
var follows = map[Verdict]struct {
	next string
	do   func(*Service, context.Context, leased, provider.Provider, Entry) (workspaces.Moved, error)
}{
	Adopt:          {"its id will be recorded", (*Service).adopt},
	Orphan:         {"will be deleted", (*Service).deleteOrphan},
	Unknown:        {"is shown, and left alone", nil},
	Missing:        {"will be quarantined and replaced", (*Service).quarantine},
	Gone:           {"is kept; it takes no place at the provider", (*Service).gone},
	ClaimedMissing: {"stays claimed; people are notified", (*Service).alarm},
	Contradiction:  {"will be quarantined and replaced", (*Service).quarantine},
	Failed:         {"will be drained and replaced", (*Service).drain},
	Stopped:        {"will be drained and replaced", (*Service).drain},
	Vanished:       {"will count as deleted", (*Service).vanished},
	Unreadable:     {"is shown, and left alone", nil},
	Drifted:        {"is shown, and left alone", nil},
}

// act does what follows from a finding, if it may be done yet. final is false where another look will do more.
func (s *Service) act(
	ctx context.Context, l leased, p provider.Provider, e Entry, f inventorydb.SaveFindingsRow, open, confirmed bool,
) (done, final bool) {
	agreed := f.Seen >= 2 && !f.FirstAt.Add(s.Grace).After(l.beganAt) // two inventories, and the grace is over
	do := follows[e.Verdict].do
	switch e.Verdict {
	case ClaimedMissing: // said also while the breaker is open: it is no act on anything
		agreed = agreed || e.Resource != nil // the provider says it of that one itself, and no listing was cut short
		switch {
		case !f.Told:
			open = false
		case e.Workspace.GoneAt == nil && e.Nothing:
			do = (*Service).gone
		default:
			return false, true
		}
	case Unknown:
		if agreed && !f.Told {
			s.leave(ctx, l, e)
		}
		return false, agreed
	case Orphan:
		// What a deleted workspace left is one by what the row says; when the listing began, the grace was over.
		agreed = agreed || e.Workspace != nil && e.Workspace.State == database.WorkspaceStateDeleted
		if !confirmed {
			return false, true
		}
	case Missing, Contradiction:
		if at := e.Workspace.State; at == database.WorkspaceStateClaimed || at == database.WorkspaceStateQuarantined {
			return false, true
		}
	default:
	}
	if do == nil { // shown, and left alone
		return false, true
	}
	if !agreed || open {
		return false, false
	}
	moved, err := do(s, ctx, l, p, e)
	fields := []any{
		slog.F("provider", l.provider), slog.F("verdict", e.Verdict), slog.F("workspace_id", e.WorkspaceID()),
		slog.F("detail", e.Detail),
	}
	if e.Resource != nil {
		fields = append(fields, slog.F("resource", e.Resource.Name))
	}
	result := "done"
	switch {
	case errors.Is(err, workspaces.ErrLost):
		result = "lost"
	case err != nil:
		result = "failed"
		s.Log.Warn(ctx, "do something about a discrepancy", append(fields, slog.Error(err))...)
	default:
		s.Log.Info(ctx, "did something about a discrepancy", fields...)
	}
	if err == nil && moved.TemplateID != uuid.Nil {
		s.Hints.Nudge(moved.TemplateID)
		s.Hints.Wake()
	}
	s.metrics.acts.WithLabelValues(l.provider, string(e.Verdict), result).Inc()
	return err == nil, err == nil
}

// leave says, once, that a resource is nobody's by this database and is not touched: it is for people to look at.
func (s *Service) leave(ctx context.Context, l leased, e Entry) {
	s.Log.Warn(ctx, "resource of an unknown workspace is left alone", slog.F("provider", l.provider),
		slog.F("resource", e.Resource.Name), slog.F("workspace_id", e.WorkspaceID()), slog.F("detail", e.Detail))
	if err := s.told(ctx, l, e); err != nil {
		s.Log.Warn(ctx, "remember what was said of a discrepancy", slog.Error(err)) // it is said again
	}
}

// deleteOrphan removes a resource that should not be there (I4). The row is looked at once more, and again what no
// longer is as it was is left alone.
func (s *Service) deleteOrphan(ctx context.Context, l leased, p provider.Provider, e Entry) (none workspaces.Moved, _ error) {
	if s.held.Expire(); ctx.Err() != nil { // a process that was frozen must not go on with what is another's by now
		return none, context.Cause(ctx)
	}
	row, err := viewsdb.New(s.Store).WorkspaceByID(ctx, e.Resource.Tags.WorkspaceID)
	switch {
	case database.NoRows(err): // there is none, or it was purged since
	case err != nil:
		return none, xerrors.Errorf("look at the workspace: %w", err)
	case e.Workspace == nil || row.State != e.Workspace.State || row.ProviderID != e.Workspace.ProviderID || row.Site != e.Workspace.Site:
		return none, workspaces.ErrLost
	}
	err = p.Delete(ctx, provider.Ref{
		Name: e.Resource.Name, ProviderID: e.Resource.ProviderID, WorkspaceID: e.Resource.Tags.WorkspaceID,
	})
	if err != nil {
		return none, xerrors.Errorf("delete an orphan: %w", err)
	}
	what, err := json.Marshal(map[string]string{
		"resource": database.Text(e.Resource.Name), "provider_id": database.Text(e.Resource.ProviderID),
		"workspace_id": e.Resource.Tags.WorkspaceID.String(),
	})
	if err != nil {
		return none, xerrors.Errorf("encode an orphan: %w", err)
	}
	err = inventorydb.New(s.Store).RecordProviderAct(ctx, inventorydb.RecordProviderActParams{
		ActorID: workspaces.Prewarm, Action: "provider.delete-orphan", Provider: l.provider, Before: what, Reason: e.Detail,
		Source: s.Replica,
	})
	if err != nil {
		return none, xerrors.Errorf("record the deletion of an orphan: %w", err)
	}
	return none, nil
}

func (s *Service) quarantine(ctx context.Context, l leased, _ provider.Provider, e Entry) (workspaces.Moved, error) {
	return s.Writer.Missing(ctx, e.Workspace.ID, e.Workspace.Incarnation, l.beganAt, e.Verdict == Missing && e.Nothing,
		fmt.Sprintf("inventory of provider %s: %s", l.provider, e.Detail), keepMissing)
}

// gone lets a maximum leave out what is not there.
func (s *Service) gone(ctx context.Context, l leased, _ provider.Provider, e Entry) (workspaces.Moved, error) {
	return s.Writer.KnownGone(ctx, e.Workspace.ID, e.Workspace.Incarnation, l.beganAt)
}

// seenAgain gives what was gone its place back, at the first listing that has it: a maximum counts what may be there.
func (s *Service) seenAgain(ctx context.Context, l leased, e Entry) {
	_, err := s.Writer.SeenAgain(ctx, e.Workspace.ID, e.Workspace.Incarnation, l.beganAt)
	if err != nil && !errors.Is(err, workspaces.ErrLost) {
		s.Log.Warn(ctx, "record that a workspace is seen again", slog.F("workspace_id", e.WorkspaceID()), slog.Error(err))
	}
}

func (s *Service) drain(ctx context.Context, _ leased, _ provider.Provider, e Entry) (workspaces.Moved, error) {
	return s.Writer.Drain(ctx, s.Store, e.Workspace.ID, e.Workspace.Incarnation, "G4: "+brief(e.Detail))
}

func (s *Service) vanished(ctx context.Context, l leased, _ provider.Provider, e Entry) (workspaces.Moved, error) {
	return s.Writer.Vanished(ctx, e.Workspace.ID, e.Workspace.Incarnation, l.beganAt, e.Detail)
}

// adopt changes nothing that a pass plans by.
func (s *Service) adopt(ctx context.Context, _ leased, _ provider.Provider, e Entry) (none workspaces.Moved, _ error) {
	_, err := s.Writer.Adopt(ctx, e.Workspace.ID, e.Workspace.Incarnation, database.Text(e.Resource.ProviderID), e.Detail)
	return none, err
}

// alarm leaves a trace of a claimed workspace that is missing, and a warning in the log, once; the notification, the gauge and
// the fault in listings are read off the finding. The workspace stays claimed (I2).
func (s *Service) alarm(ctx context.Context, l leased, _ provider.Provider, e Entry) (none workspaces.Moved, _ error) {
	if err := s.Writer.ClaimLost(ctx, e.Workspace.ID, e.Detail); err != nil {
		return none, err
	}
	if err := s.told(ctx, l, e); err != nil {
		return none, xerrors.Errorf("record that people were notified: %w", err)
	}
	s.Log.Warn(ctx, "claimed workspace is missing at its provider", slog.F("workspace", e.Workspace.Name),
		slog.F("workspace_id", e.Workspace.ID), slog.F("provider", l.provider), slog.F("detail", e.Detail))
	return none, nil
}

// told remembers that people were told of a finding.
func (s *Service) told(ctx context.Context, l leased, e Entry) error {
	return inventorydb.New(s.Store).FindingTold(ctx, inventorydb.FindingToldParams{
		Provider: l.provider, Site: l.site, Subject: database.Text(e.Subject()), Verdict: string(e.Verdict),
	})
}
