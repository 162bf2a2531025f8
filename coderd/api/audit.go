package api

import (
	"context"
	"net/http"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerAudit() {
	answer(s, operation{
		id: "list-audit", method: http.MethodGet, path: "/audit", action: auth.ActReadAudit, tag: "server",
		summary: "List the audit log, newest first",
	}, s.listAudit)
}

func (s *server) listAudit(ctx context.Context, who auth.Identity, in *sdk.AuditFilter) (sdk.AuditList, error) {
	params := viewsdb.AuditLogParams{
		OrganizationID: who.OrganizationID, Action: given(in.Action), Actor: given(in.Actor), Target: given(in.Target),
		People: in.People, Since: timeOrNil(in.Since), Until: timeOrNil(in.Until), MaxEntries: in.Limit + 1,
	}
	if in.Before > 0 {
		params.BeforeID = &in.Before
	}
	rows, err := viewsdb.New(s.Store).AuditLog(ctx, params)
	if err != nil {
		return sdk.AuditList{}, xerrors.Errorf("list audit log: %w", err)
	}
	rows, more := firstOf(rows, in.Limit)
	entries := listOf(rows, func(r viewsdb.AuditLogRow) sdk.AuditEntry {
		return sdk.AuditEntry{
			ID: r.ID, At: r.At, Actor: r.Actor, Organization: r.Organization, Action: r.Action, TargetType: r.TargetType,
			TargetID: r.TargetID, TargetName: r.TargetName, Before: r.Before, After: r.After, Reason: r.Reason,
			Source: r.Source,
		}
	})
	var list sdk.AuditList
	list.Entries, list.Next, err = fitting(entries, more, func(e sdk.AuditEntry) int64 { return e.ID })
	return list, err
}
