package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"cdr.dev/slog"
	"github.com/go-chi/chi/v5"

	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
	"github.com/prewarm-dev/prewarm/database"
)

// Webhooks takes what forges send; *inbox.Service does.
type Webhooks interface {
	Accept(ctx context.Context, entity string, header http.Header, body []byte) (inbox.Accepted, error)
}

// webhookTimeout bounds a webhook, the reading of its body included: the forges give up after 10 seconds.
const webhookTimeout = 10 * time.Second

// serveWebhooks serves what forges call. They have no token of ours: each delivery is signed with its entity's secret (P2).
func (s *server) serveWebhooks(router chi.Router) {
	if s.Webhooks == nil {
		return
	}
	router.Post("/webhooks/{entity}", s.webhook)
}

func (s *server) webhook(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), webhookTimeout)
	defer cancel()
	// A body that trickles in ends with the deadline. Where a connection has none, its server has other bounds.
	_ = http.NewResponseController(w).SetReadDeadline(s.Clock.Now("api", "webhook").Add(webhookTimeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, inbox.MaxBody+1))
	if err != nil {
		writeProblem(w, http.StatusBadRequest, "the body could not be read")
		return
	}
	accepted, err := s.Webhooks.Accept(ctx, chi.URLParam(r, "entity"), r.Header, body)
	switch {
	case err == nil:
		writeJSON(w, http.StatusAccepted, map[string]string{"outcome": accepted.Outcome})
	case errors.Is(err, inbox.ErrTooLarge):
		w.Header().Set("Connection", "close") // the rest is not read
		writeProblem(w, http.StatusRequestEntityTooLarge, "the body is too large: at most 1 MiB is read")
	case errors.Is(err, inbox.ErrNoEntity):
		writeProblem(w, http.StatusNotFound, "there is no such forge entity")
	case errors.Is(err, inbox.ErrSignature):
		writeProblem(w, http.StatusUnauthorized, "the signature is missing or wrong: the webhook's secret has to be the entity's")
	case errors.Is(err, inbox.ErrMalformed):
		writeProblem(w, http.StatusBadRequest, err.Error())
	default:
		s.webhookFailed(ctx, w, err)
	}
}

// sealedFor is after how many seconds a delivery is worth another try whose secret cannot be opened here: a person mends it,
// and the next replica may have the key already.
const sealedFor = "60"

// webhookFailed: nothing was stored, so the forge is to count the delivery as failed; it is fetched from there later. Whoever
// sent it is told nothing of keys or secrets: these are in the log, and in the status of the entity.
func (s *server) webhookFailed(ctx context.Context, w http.ResponseWriter, err error) {
	if errors.Is(err, inbox.ErrSealed) {
		s.Log.Error(ctx, "webhook not taken; every replica needs the same encryption keys",
			slog.F("request", requestIDOf(ctx)), slog.Error(err))
		w.Header().Set("Retry-After", sealedFor)
		writeProblem(w, http.StatusServiceUnavailable, "deliveries of this entity cannot be taken now: try again later")
		return
	}
	if database.IsConnection(err) || errors.Is(err, context.DeadlineExceeded) {
		w.Header().Set("Retry-After", "1")
		writeProblem(w, http.StatusServiceUnavailable, "the database cannot be reached")
		return
	}
	s.Log.Error(ctx, "webhook failed", slog.F("request", requestIDOf(ctx)), slog.Error(err))
	writeProblem(w, http.StatusInternalServerError,
		"something went wrong in the server; its log says more at request "+requestIDOf(ctx))
}
