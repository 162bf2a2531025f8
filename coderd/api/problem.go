package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cdr.dev/slog"
	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// problem turns an error into what the client is told. What is nobody's fault but ours is logged, and told without its
// inside.
func (s *server) problem(ctx context.Context, err error) error {
	var (
		status   huma.StatusError
		refusal  *auth.Refusal
		token    *instance.Refusal
		full     *workspaces.NoRoom
		quota    *claim.QuotaExceeded
		runners  *claim.OfRunners
		problems *templates.Problems
	)
	switch {
	case errors.As(err, &status):
		return err
	case errors.As(err, &refusal):
		return huma.NewError(refusalStatus(refusal.Kind), refusal.Text)
	case errors.Is(err, auth.ErrNotAllowed):
		return huma.Error401Unauthorized(innermost(err))
	case errors.As(err, &token):
		return huma.ErrorWithHeaders(huma.Error401Unauthorized(token.Text),
			http.Header{"WWW-Authenticate": {`Bearer realm="prewarm"`}})
	case errors.Is(err, instance.ErrTooMany):
		return retryLater(http.StatusTooManyRequests, "too many requests with this instance token: slow down")
	case errors.Is(err, instance.ErrClaimMismatch):
		return huma.Error409Conflict(instance.ErrClaimMismatch.Error() + ": ask for events again")
	case errors.As(err, &problems):
		return configurationProblem(problems)
	case errors.Is(err, workspaces.ErrNotFound):
		return huma.Error404NotFound("there is no such workspace")
	case errors.As(err, &full):
		return huma.Error409Conflict("the workspace cannot be retried: " + full.Why)
	case errors.Is(err, workspaces.ErrNotClaimed), errors.Is(err, workspaces.ErrGone),
		errors.Is(err, workspaces.ErrNotQuarantined), errors.Is(err, workspaces.ErrNotKept):
		return huma.Error409Conflict(innermost(err))
	case errors.Is(err, workspaces.ErrLost):
		return retryLater(http.StatusConflict, "the workspace was changed by somebody else at that moment: try again")
	case errors.As(err, &runners):
		return huma.Error422UnprocessableEntity(runners.Error())
	case errors.Is(err, claim.ErrKeyReused):
		return huma.Error409Conflict(claim.ErrKeyReused.Error() + ": use another key")
	case errors.Is(err, claim.ErrCountChanged):
		return huma.Error409Conflict(claim.ErrCountChanged.Error() + ": use another key")
	case errors.As(err, &quota):
		return huma.Error409Conflict(quota.Error() + "; release what you need no more (`prewarm workspace list --state claimed`)")
	case errors.Is(err, provider.ErrNotFound):
		return huma.Error409Conflict("the provider does not have the workspace any more")
	case errors.Is(err, database.ErrCommitUnknown):
		return huma.Error503ServiceUnavailable(
			"the database went away at the very end: it may be done or not; look before you try again")
	case database.IsConnection(err):
		return retryLater(http.StatusServiceUnavailable, "the database cannot be reached; it is tried again")
	case database.IsSerialization(err):
		return retryLater(http.StatusServiceUnavailable, "too many changes at once: try again")
	case isBadText(err):
		return huma.Error422UnprocessableEntity("a text in the request has a character that cannot be stored, such as NUL")
	case errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), auth.ErrNotAllowed):
		return s.problem(ctx, context.Cause(ctx))
	case errors.Is(err, context.Canceled): // the client is gone: nobody reads this
		return huma.NewError(statusClientGone, "the client went away")
	case errors.Is(err, context.DeadlineExceeded):
		return retryLater(http.StatusServiceUnavailable, "the request took too long and was ended")
	}
	s.Log.Error(ctx, "request failed", slog.F("request", requestIDOf(ctx)), slog.Error(err))
	return huma.Error500InternalServerError("something went wrong in the server; its log says more at request " +
		requestIDOf(ctx))
}

// withoutValues takes out of a problem what a body had where it was wrong: there are secrets in bodies, and answers end in
// logs. Who sent it knows, and is told the place.
func withoutValues(_ huma.Context, _ string, v any) (any, error) {
	problem, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	for _, detail := range problem.Errors {
		if detail.Location == "body" || strings.HasPrefix(detail.Location, "body.") || strings.HasPrefix(detail.Location, "body[") {
			detail.Value = nil
		}
	}
	return problem, nil
}

const statusClientGone = 499

func refusalStatus(kind error) int {
	switch {
	case errors.Is(kind, auth.ErrForbidden):
		return http.StatusForbidden
	case errors.Is(kind, auth.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(kind, auth.ErrConflict):
		return http.StatusConflict
	default:
		return http.StatusUnprocessableEntity
	}
}

func configurationProblem(problems *templates.Problems) error {
	details := lists.Of(problems.List, func(p templates.Problem) error {
		return &huma.ErrorDetail{Location: problems.Location(p.Pos), Message: p.Message}
	})
	things := "1 thing"
	if n := len(details); n > 1 {
		things = fmt.Sprintf("%d things", n)
	}
	return huma.Error422UnprocessableEntity("nothing was applied: "+things+" to mend", details...)
}

func retryLater(status int, message string) error {
	return huma.ErrorWithHeaders(huma.NewError(status, message), http.Header{"Retry-After": {"1"}})
}

// isBadText says whether PostgreSQL refused the bytes of a text: NUL, or what is not UTF-8.
func isBadText(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "22021" || pg.Code == "22P05")
}

// innermost is the text of an error without what it was wrapped in.
func innermost(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// writeProblem answers outside of an operation.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = plainJSON(w).Encode(huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail})
}
