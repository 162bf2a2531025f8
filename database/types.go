package database

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
	"golang.org/x/xerrors"
)

// mapTypes makes timestamps come out in UTC; otherwise they would be in the time zone of the machine. UUIDs travel as their
// 16 bytes: pgx itself does not know the type that we use and would format and parse each of them, at many times the cost.
func mapTypes(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	pgxuuid.Register(types)
	types.RegisterType(&pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}})
	types.RegisterType(&pgtype.Type{
		Name:  "timestamptz",
		OID:   pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}

// uuidCodec reads UUIDs, which the library's does not: pgx asks first whether a target can scan a text, and only then its
// wrappers.
type uuidCodec struct{ pgxuuid.UUIDCodec }

func (c uuidCodec) PlanScan(types *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ours := target.(*uuid.UUID); ours && format == pgtype.BinaryFormatCode {
		return scanUUID{}
	}
	return c.UUIDCodec.PlanScan(types, oid, format, target)
}

// scanUUID reads NULL as the zero UUID, as [uuid.UUID.Scan] does.
type scanUUID struct{}

func (scanUUID) Scan(src []byte, target any) error {
	id := target.(*uuid.UUID)
	if src == nil {
		*id = uuid.Nil
		return nil
	}
	if len(src) != len(id) {
		return xerrors.Errorf("a UUID of %d bytes", len(src))
	}
	copy(id[:], src)
	return nil
}
