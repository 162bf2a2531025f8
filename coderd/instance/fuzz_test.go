package instance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
)

// FuzzToken tries tokens of three parts on a service with one key, without a database. What is taken says what was signed.
func FuzzToken(f *testing.F) {
	clock := quartz.NewReal() // a mock says in f what a fuzz does, which it may not
	key := signingKey{ID: uuid.New(), secret: newSecret()}
	bearer := Bearer{WorkspaceID: uuid.New(), Incarnation: 3, Attempt: 2, KeyID: key.ID}
	token, err := encode(key, bearer, *jwt.NewNumericDate(clock.Now()))
	if err != nil {
		f.Fatal(err)
	}
	parts := strings.Split(token, ".")
	f.Add(parts[0], parts[1], parts[2])
	s := &Service{Options: Options{Clock: clock}, keys: newKeyring(nil, sealer{}, clock)}
	<-s.keys.turn
	s.keys.turn <- &keys{known: []signingKey{key}, at: clock.Now().Add(time.Hour)}
	f.Add("", "", "")
	f.Add("eyJhbGciOiJub25lIn0", "e30", "")
	f.Fuzz(func(t *testing.T, header, claims, signature string) {
		for _, token := range []string{header + "." + claims + "." + signature, header + claims + signature} {
			got, err := s.verify(t.Context(), token)
			var refusal *Refusal
			if err == nil && got != bearer || err != nil && !errors.As(err, &refusal) && !errors.Is(err, ErrNotAToken) {
				t.Fatalf("%q: %v, %v", token, got, err)
			}
		}
	})
}
