package api

import (
	"encoding/json"
	"math"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// workspaceOf is a row as who may see it: its environment may hold what opens it, so that is for who may enter it.
func workspaceOf(who auth.Identity, row viewsdb.WorkspaceViewRow) (sdk.Workspace, error) {
	w := sdk.Workspace{
		ID: row.ID, Name: row.Name, Organization: row.Organization, Template: row.Template, Preset: row.Preset,
		Version: int(row.Version), Provider: row.Provider, State: string(row.State), Incarnation: int(row.Incarnation),
		Owner: row.Owner, ProviderID: row.ProviderID, Site: row.Site, OSName: row.OsName, OSVersion: row.OsVersion, Addresses: []sdk.Address{},
		Environment: map[string]string{}, Parameters: map[string]string{}, Fault: row.Fault, CreatedAt: row.CreatedAt,
		StateAt: row.StateAt, ReadyAt: row.ReadyAt, ClaimedAt: row.ClaimedAt, ExpiresAt: row.ExpiresAt,
		DeletedAt: row.DeletedAt, LeaseUntil: row.LeaseUntil, ClaimID: idOrNil(row.ClaimID), Job: jobOf(row),
	}
	if err := json.Unmarshal(row.Addresses, &w.Addresses); err != nil {
		return w, xerrors.Errorf("decode addresses: %w", err)
	}
	if err := json.Unmarshal(row.Parameters, &w.Parameters); err != nil {
		return w, xerrors.Errorf("decode parameters: %w", err)
	}
	if who.May(auth.ActEnterWorkspace, row.OwnerID) {
		if err := json.Unmarshal(row.Environment, &w.Environment); err != nil {
			return w, xerrors.Errorf("decode environment: %w", err)
		}
	}
	w.Starting = row.State == database.WorkspaceStateClaimed && row.JobID.Valid &&
		(*row.JobKind == database.JobKindStart || *row.JobKind == database.JobKindProbe)
	return w, nil
}

func jobOf(row viewsdb.WorkspaceViewRow) *sdk.Job {
	if !row.JobID.Valid {
		return nil
	}
	return &sdk.Job{
		ID: row.JobID.UUID, Kind: string(*row.JobKind), State: string(*row.JobState), Attempt: int(*row.JobAttempt),
		Failures: int(*row.JobFailures), DueAt: *row.JobDueAt, LeasedBy: *row.JobLeasedBy, LastError: *row.JobLastError,
	}
}

func transitionsOf(rows []viewsdb.HistoryViewsRow) []sdk.Transition {
	return lists.Of(rows, func(r viewsdb.HistoryViewsRow) sdk.Transition {
		t := sdk.Transition{
			To: string(r.ToState), At: r.At, Actor: r.Actor, Reason: r.Reason, Incarnation: int(r.Incarnation),
			Attempt: int(r.Attempt), Failures: int(r.Failures), From: string(database.OrZero(r.FromState)),
			Job: string(database.OrZero(r.JobKind)),
		}
		if r.Failures > 0 && r.Error != r.Reason {
			t.Error = r.Error
		}
		if r.LastedS >= 0 {
			ms := int64(math.Round(r.LastedS * 1000))
			t.LastedMS = &ms
		}
		return t
	})
}
