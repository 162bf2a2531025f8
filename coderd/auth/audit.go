package auth

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/authdb"
)

// Entry is who did what, on what, before and after, from where. Before and After are marshalled to JSON; nil is none.
// They must not hold secrets.
type Entry struct {
	ActorID        uuid.UUID
	OrganizationID uuid.UUID // zero for what belongs to none, such as a provider
	Action         string    // resource.verb
	TargetType     string
	TargetID       string
	TargetName     string
	Before, After  any
	Reason         string
	Source         string
}

// Record writes an entry of the audit log. q is of the transaction of the deed, so that there is never one without the
// other.
func Record(ctx context.Context, db database.DBTX, e Entry) error {
	before, err := encode(e.Before)
	if err != nil {
		return err
	}
	after, err := encode(e.After)
	if err != nil {
		return err
	}
	err = authdb.New(db).InsertAudit(ctx, authdb.InsertAuditParams{
		ActorID:        e.ActorID,
		OrganizationID: uuid.NullUUID{UUID: e.OrganizationID, Valid: e.OrganizationID != uuid.Nil},
		Action:         e.Action,
		TargetType:     e.TargetType,
		TargetID:       e.TargetID,
		TargetName:     e.TargetName,
		Before:         before,
		After:          after,
		Reason:         e.Reason,
		Source:         e.Source,
	})
	if err != nil {
		return xerrors.Errorf("record %s: %w", e.Action, err)
	}
	return nil
}

func encode(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, xerrors.Errorf("encode audit entry: %w", err)
	}
	return b, nil
}
