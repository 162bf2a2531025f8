package api

import (
	"cmp"
	"context"
	"net/http"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerAudit() {
	answer(s, operation{
		id: "list-audit", method: http.MethodGet, path: "/audit", action: auth.ActReadAudit, tag: "server",
		summary:     "List the audit log, newest first",
		description: "A search by words ends a page after some thousands of entries, even an empty one: next goes on.",
	}, s.listAudit)
}

func (s *server) listAudit(ctx context.Context, who auth.Identity, in *sdk.AuditFilter) (sdk.AuditList, error) {
	q := viewsdb.New(database.Planned(s.Store))
	params := viewsdb.AuditLogParams{
		OrganizationID: who.OrganizationID, Action: database.OrNull(in.Action), Actor: database.OrNull(in.Actor),
		Target: database.OrNull(in.Target), Words: patterns(in.Q), People: in.People, Since: timeOrNil(in.Since),
		Until: timeOrNil(in.Until), BeforeID: database.OrNull(in.Before), MaxEntries: in.Limit + 1,
	}
	if params.BeforeID != nil {
		at, err := q.AuditPlace(ctx, *params.BeforeID)
		switch {
		case database.NoRows(err):
			return sdk.AuditList{Entries: []sdk.AuditEntry{}}, nil
		case err != nil:
			return sdk.AuditList{}, xerrors.Errorf("find where a page of the audit log begins: %w", err)
		}
		params.BeforeAt = &at
	}
	var bottom int64 // where a search stopped; 0: there is nothing more to search
	if len(params.Words) > 0 {
		end, err := q.AuditWindow(ctx, viewsdb.AuditWindowParams{
			OrganizationID: who.OrganizationID, BeforeAt: params.BeforeAt, BeforeID: params.BeforeID, Size: searched - 1,
		})
		switch {
		case err == nil:
			bottom, params.BottomAt, params.BottomID = end.ID, &end.At, &end.ID
		case !database.NoRows(err):
			return sdk.AuditList{}, xerrors.Errorf("find how far to search the audit log: %w", err)
		}
	}
	rows, err := q.AuditLog(ctx, params)
	if err != nil {
		return sdk.AuditList{}, xerrors.Errorf("list audit log: %w", err)
	}
	rows, more := firstOf(rows, in.Limit)
	entries := lists.Of(rows, func(r viewsdb.AuditLogRow) sdk.AuditEntry {
		return sdk.AuditEntry{
			ID: r.ID, At: r.At, Actor: r.Actor, Organization: r.Organization, Action: r.Action, TargetType: r.TargetType,
			TargetID: r.TargetID, TargetName: r.TargetName, Before: r.Before, After: r.After, Reason: r.Reason,
			Source: r.Source,
		}
	})
	var list sdk.AuditList
	list.Entries, list.Next, err = fitting(entries, more, func(e sdk.AuditEntry) int64 { return e.ID })
	list.Next = cmp.Or(list.Next, bottom)
	return list, err
}
