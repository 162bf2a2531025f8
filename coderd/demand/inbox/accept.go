package inbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

// MaxBody is how much of a webhook is read, in bytes. The forges themselves send no more than 25 MB, and no job that is near
// to this.
const MaxBody = 1 << 20

// Why a webhook is refused. Nothing was stored.
var (
	ErrTooLarge  = errors.New("the body is larger than 1 MiB")
	ErrSignature = errors.New("the signature is missing or wrong")
	ErrMalformed = errors.New("the delivery is malformed")
)

// Accepted is what came of a webhook.
type Accepted struct {
	// Outcome is "stored", or "repeated": it had come before, and nothing was done.
	Outcome string
}

// Accept stores a webhook's delivery in the inbox (P2). It fails with ErrNoEntity, ErrSealed, ErrTooLarge, ErrSignature,
// ErrMalformed, or what the database said, and then nothing has changed: the forge may send it again.
func (s *Service) Accept(ctx context.Context, entity string, header http.Header, body []byte) (Accepted, error) {
	accepted, err := s.accept(ctx, entity, header, body)
	s.metrics.accepted(accepted.Outcome, err)
	if err == nil {
		s.Wake()
	}
	return accepted, err
}

func (s *Service) accept(ctx context.Context, name string, header http.Header, body []byte) (Accepted, error) {
	if len(body) > MaxBody {
		return Accepted{}, ErrTooLarge
	}
	entity, err := s.Directory.ByName(ctx, name)
	if err == nil && entity.Err != nil { // it is not the forge's fault: it shall see that, and send it again
		err = xerrors.Errorf("%s: %w", entity.Err.Error(), ErrSealed)
	}
	if err != nil {
		signed(body, nil, []string{"as long as for one that there is"})
		return Accepted{}, xerrors.Errorf("find entity: %w", err)
	}
	d, err := entity.Kind.Delivery(header)
	// The signature comes before everything else that may be wrong: without it, nobody is told anything.
	if !signed(body, d.Signature, entity.Secrets) {
		return Accepted{}, ErrSignature
	}
	switch {
	case err != nil:
		return Accepted{}, xerrors.Errorf("%s: %w", err.Error(), ErrMalformed)
	case !plain(d.ID, 200) || !plain(d.Event, 100):
		return Accepted{}, xerrors.Errorf("read the headers of the delivery's id and event: %w", ErrMalformed)
	case !json.Valid(body):
		return Accepted{}, xerrors.Errorf("read the body as JSON: %w", ErrMalformed)
	}
	n, err := inboxdb.New(s.Store).InsertDelivery(ctx, inboxdb.InsertDeliveryParams{
		EntityID: entity.ID, DeliveryID: d.ID, Event: d.Event, Body: body,
	})
	switch {
	case err != nil:
		return Accepted{}, xerrors.Errorf("store delivery: %w", err)
	case n == 0:
		return Accepted{Outcome: "repeated"}, nil
	}
	return Accepted{Outcome: "stored"}, nil
}

// signed says whether one of the secrets signed the body. Each is tried, so that the time says nothing of which was good.
// What is empty is neither a secret nor a signature, wherever it came from.
func signed(body, signature []byte, secrets []string) bool {
	good := false
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		if hmac.Equal(mac.Sum(nil), signature) && secret != "" {
			good = true
		}
	}
	return good
}

// plain says whether a header's value is one to store: visible ASCII, and not too long.
func plain(s string, most int) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= most
}
