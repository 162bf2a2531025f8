package api

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type auditInput struct {
	Limit  int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Before int64  `query:"before" minimum:"1" doc:"What the page before gave as next"`
	Action string `query:"action" doc:"Such as workspace.release"`
	Actor  string `query:"actor" doc:"Name of a user"`
	Target string `query:"target" doc:"Name or id of what it was done to"`
	Q      string `query:"q" maxLength:"200" doc:"Words, each a part of the actor, action, target, reason or source, in any case"`

	People bool      `query:"people" doc:"Leave out what Prewarm did by itself"`
	Since  time.Time `query:"since" doc:"Only what was done from then on"`
	Until  time.Time `query:"until" doc:"Only what was done before then"`
}

func (s *server) registerAudit() {
	register(s, operation{
		id: "list-audit", method: http.MethodGet, path: "/audit", action: auth.ActReadAudit, tag: "server",
		summary:     "List the audit log, newest first",
		description: "A search by words ends a page after some thousands of entries, even an empty one: next goes on.",
	}, s.listAudit)
}

func (s *server) listAudit(ctx context.Context, who auth.Identity, in *auditInput) (*body[sdk.AuditList], error) {
	params := viewsdb.AuditLogParams{
		OrganizationID: who.OrganizationID, Action: given(in.Action), Actor: given(in.Actor), Target: given(in.Target),
		Words: patterns(in.Q), People: in.People, Since: timeOrNil(in.Since), Until: timeOrNil(in.Until), MaxEntries: in.Limit + 1,
	}
	if in.Before > 0 {
		params.BeforeID = &in.Before
	}
	list := sdk.AuditList{Entries: []sdk.AuditEntry{}}
	if len(params.Words) > 0 {
		end, err := viewsdb.New(s.Store).AuditWindow(ctx, viewsdb.AuditWindowParams{
			OrganizationID: who.OrganizationID, BeforeID: params.BeforeID, Size: searched - 1,
		})
		switch {
		case err == nil:
			list.Next, params.BottomID = end, &end
		case !database.NoRows(err):
			return nil, xerrors.Errorf("find how far to search the audit log: %w", err)
		}
	}
	rows, err := viewsdb.New(s.Store).AuditLog(ctx, params)
	if err != nil {
		return nil, xerrors.Errorf("list audit log: %w", err)
	}
	if len(rows) > int(in.Limit) {
		rows = rows[:in.Limit]
		list.Next = rows[len(rows)-1].ID
	}
	for _, r := range rows {
		list.Entries = append(list.Entries, sdk.AuditEntry{
			ID: r.ID, At: r.At, Actor: r.Actor, Organization: r.Organization, Action: r.Action, TargetType: r.TargetType,
			TargetID: r.TargetID, TargetName: r.TargetName, Before: r.Before, After: r.After, Reason: r.Reason,
			Source: r.Source,
		})
	}
	n, err := fitting(list.Entries)
	if err != nil {
		return nil, err
	}
	if n < len(list.Entries) {
		list.Entries, list.Next = list.Entries[:n], list.Entries[n-1].ID
	}
	return bodyOf(list), nil
}
