package database

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATE codes that somebody branches on; see appendix A of the PostgreSQL manual.
const (
	codeForeignKeyViolation   = "23503"
	codeUniqueViolation       = "23505"
	codeCheckViolation        = "23514"
	codeSerialization         = "40001"
	codeDeadlock              = "40P01"
	codeDiskFull              = "53100"
	codeOutOfMemory           = "53200"
	codeTooManyConnections    = "53300"
	codeLockTimeout           = "55P03"
	codeAdminShutdown         = "57P01"
	codeCrashShutdown         = "57P02"
	codeCannotConnectNow      = "57P03"
	codeIOError               = "58030"
	classConnectionException  = "08"
	codeInsufficientPrivilege = "42501"
)

// ErrSerialization: the transaction lost against others each time it was run. Trying again later is right.
var ErrSerialization = errors.New("transaction lost against concurrent ones too often")

// ErrCommitUnknown: the connection was lost while the commit was under way. The transaction may be done or not.
var ErrCommitUnknown = errors.New("outcome of the commit is unknown")

// outcome is one of the errors above, and what led to it.
type outcome struct{ kind, cause error }

func (o outcome) Error() string   { return o.kind.Error() + ": " + o.cause.Error() }
func (o outcome) Unwrap() []error { return []error{o.kind, o.cause} }

// NoRows says whether a query for one row found none.
func NoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// IsUniqueViolation says whether a row was refused because another one has its key; with constraints given, whether it
// was one of these.
func IsUniqueViolation(err error, constraints ...string) bool {
	return violates(err, codeUniqueViolation, constraints)
}

// IsForeignKeyViolation says whether a row was refused because it names a row that does not exist, or is still named.
func IsForeignKeyViolation(err error, constraints ...string) bool {
	return violates(err, codeForeignKeyViolation, constraints)
}

// IsCheckViolation says whether a row was refused by a CHECK.
func IsCheckViolation(err error, constraints ...string) bool {
	return violates(err, codeCheckViolation, constraints)
}

// IsSerialization says whether the transaction saw a state that another one has changed since (40001), or was given up
// by InTx for that.
func IsSerialization(err error) bool {
	return errors.Is(err, ErrSerialization) || code(err) == codeSerialization
}

// IsDeadlock says whether the transaction was the victim of a deadlock (40P01).
func IsDeadlock(err error) bool { return code(err) == codeDeadlock }

// IsLockTimeout says whether a lock could not be had in the time that the transaction gives it (55P03).
func IsLockTimeout(err error) bool { return code(err) == codeLockTimeout }

// IsConnection says whether the database is away: not reachable, shutting down, starting up, gone in the middle of a
// query, or out of what it needs, be it connections, memory or room on its disk. The caller's own cancellation or
// deadline is not that.
func IsConnection(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if _, refused := errors.AsType[*pgconn.ConnectError](err); refused {
		return !isRefusal(err)
	}
	switch c := code(err); {
	case strings.HasPrefix(c, classConnectionException):
		return true
	case c != "":
		return slices.Contains([]string{
			codeTooManyConnections, codeAdminShutdown, codeCrashShutdown, codeCannotConnectNow, codeDiskFull,
			codeOutOfMemory, codeIOError,
		}, c)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed)
}

// isRefusal tells a server that answers "no" (wrong password, no such database) from one that is away.
func isRefusal(err error) bool {
	class := code(err)
	return strings.HasPrefix(class, "28") || strings.HasPrefix(class, "3D")
}

// isLost says whether running the transaction again is all that is needed.
func isLost(err error) bool {
	c := code(err)
	return c == codeSerialization || c == codeDeadlock
}

func violates(err error, want string, constraints []string) bool {
	pg, is := errors.AsType[*pgconn.PgError](err)
	return is && pg.Code == want && (len(constraints) == 0 || slices.Contains(constraints, pg.ConstraintName))
}

func code(err error) string {
	if pg, is := errors.AsType[*pgconn.PgError](err); is {
		return pg.Code
	}
	return ""
}
