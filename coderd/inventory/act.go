package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// errLeaseOver: whatever is not done is done by the next inventory.
var errLeaseOver = errors.New("the time for this inventory is over")

// agreed says whether two inventories agree, and the grace is over.
func (s *Service) agreed(l leased, f database.SaveFindingsRow) bool {
	return f.Seen >= 2 && !f.FirstAt.Add(s.Grace).After(l.beganAt)
}

// act does what follows from a finding, if it may be done yet. final is false where another look will do more.
func (s *Service) act(
	ctx context.Context, l leased, p provider.Provider, e Entry, f database.SaveFindingsRow, open, confirmed bool,
) (done, final bool) {
	var do func(context.Context, leased, provider.Provider, Entry) error
	agreed := s.agreed(l, f)
	switch e.Verdict {
	case ClaimedMissing: // said also while the breaker is open: it is no act on anything
		if f.Told {
			return false, true
		}
		do, open = s.alarm, false
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
		do = s.deleteOrphan
	case Missing, Contradiction:
		switch e.Workspace.State {
		case database.WorkspaceStateClaimed, database.WorkspaceStateQuarantined:
			return false, true
		default:
		}
		do = s.quarantine
	case Failed, Stopped:
		do = s.drain
	case Vanished:
		do = s.vanished
	case Adopt:
		do = s.adopt
	default: // shown, and left alone
		return false, true
	}
	if !agreed || open {
		return false, false
	}
	err := do(ctx, l, p, e)
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
	s.metrics.acts.WithLabelValues(l.provider, string(e.Verdict), result).Inc()
	return err == nil, err == nil
}

// leave says, once, that a resource is nobody's by this database and is not touched: it is for people to look at.
func (s *Service) leave(ctx context.Context, l leased, e Entry) {
	s.Log.Warn(ctx, "resource of an unknown workspace is left alone", slog.F("provider", l.provider),
		slog.F("resource", e.Resource.Name), slog.F("workspace_id", e.WorkspaceID()), slog.F("detail", e.Detail))
	err := s.Store.FindingTold(ctx, database.FindingToldParams{
		Provider: l.provider, Site: l.site, Subject: clean(e.Subject()), Verdict: string(e.Verdict),
	})
	if err != nil {
		s.Log.Warn(ctx, "remember what was said of a discrepancy", slog.Error(err)) // it is said again
	}
}

// deleteOrphan removes a resource that should not be there (I4). The row is looked at once more, and again what no
// longer is as it was is left alone.
func (s *Service) deleteOrphan(ctx context.Context, l leased, p provider.Provider, e Entry) error {
	if err := s.inTime(ctx, l); err != nil {
		return err
	}
	row, err := s.Store.WorkspaceByID(ctx, e.Resource.Tags.WorkspaceID)
	switch {
	case database.NoRows(err) && e.Workspace == nil:
	case database.NoRows(err): // purged since
	case err != nil:
		return xerrors.Errorf("look at the workspace: %w", err)
	case e.Workspace == nil || row.State != e.Workspace.State || row.ProviderID != e.Workspace.ProviderID || row.Site != e.Workspace.Site:
		return workspaces.ErrLost
	}
	err = p.Delete(ctx, provider.Ref{
		Name: e.Resource.Name, ProviderID: e.Resource.ProviderID, WorkspaceID: e.Resource.Tags.WorkspaceID,
	})
	if err != nil {
		return xerrors.Errorf("delete an orphan: %w", err)
	}
	what, err := json.Marshal(map[string]string{
		"resource": clean(e.Resource.Name), "provider_id": clean(e.Resource.ProviderID),
		"workspace_id": e.Resource.Tags.WorkspaceID.String(),
	})
	if err != nil {
		return xerrors.Errorf("encode an orphan: %w", err)
	}
	err = s.Store.RecordProviderAct(ctx, database.RecordProviderActParams{
		ActorID: workspaces.Prewarm, Action: "provider.delete-orphan", Provider: l.provider, Before: what, Reason: e.Detail,
		Source: s.Replica,
	})
	if err != nil {
		return xerrors.Errorf("record the deletion of an orphan: %w", err)
	}
	return nil
}

// inTime is asked right before each call that changes something at the provider: a process that was frozen must not go
// on with what is another's by now.
func (s *Service) inTime(ctx context.Context, l leased) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.Clock.Now("inventory", "act").After(l.until) {
		return errLeaseOver
	}
	return nil
}

func (s *Service) quarantine(ctx context.Context, l leased, _ provider.Provider, e Entry) error {
	moved, err := s.Writer.Missing(ctx, e.Workspace.ID, e.Workspace.Incarnation, l.beganAt,
		fmt.Sprintf("inventory of provider %s: %s", l.provider, e.Detail), keepMissing)
	if err == nil {
		s.Nudge(moved.TemplateID)
	}
	return err
}

func (s *Service) drain(ctx context.Context, _ leased, _ provider.Provider, e Entry) error {
	moved, err := s.Writer.Drain(ctx, s.Store.Queries, e.Workspace.ID, e.Workspace.Incarnation, "G4: "+brief(e.Detail))
	if err == nil {
		s.Nudge(moved.TemplateID)
		s.Wake()
	}
	return err
}

func (s *Service) vanished(ctx context.Context, l leased, _ provider.Provider, e Entry) error {
	moved, err := s.Writer.Vanished(ctx, e.Workspace.ID, e.Workspace.Incarnation, l.beganAt, e.Detail)
	if err == nil {
		s.Nudge(moved.TemplateID)
	}
	return err
}

func (s *Service) adopt(ctx context.Context, _ leased, _ provider.Provider, e Entry) error {
	_, err := s.Writer.Adopt(ctx, e.Workspace.ID, e.Workspace.Incarnation, clean(e.Resource.ProviderID), e.Detail)
	return err
}

// alarm leaves a trace of a claimed workspace that is missing, once; the notification and the gauge are read off the
// finding. The workspace stays claimed (I2).
func (s *Service) alarm(ctx context.Context, l leased, _ provider.Provider, e Entry) error {
	err := s.Store.RecordWorkspaceAct(ctx, database.RecordWorkspaceActParams{
		ActorID: workspaces.Prewarm, Action: "workspace.missing", WorkspaceID: e.Workspace.ID, Reason: e.Detail, Source: s.Replica,
	})
	if err != nil {
		return xerrors.Errorf("record a missing workspace: %w", err)
	}
	err = s.Store.FindingTold(ctx, database.FindingToldParams{
		Provider: l.provider, Site: l.site, Subject: e.Subject(), Verdict: string(e.Verdict),
	})
	if err != nil {
		return xerrors.Errorf("record that people were told: %w", err)
	}
	return nil
}
