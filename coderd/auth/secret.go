package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// So that people and scanners recognise one, and none is taken for another kind.
const (
	tokenPrefix   = "pw_"
	sessionPrefix = "pws_"
	secretBytes   = 32
	hintLength    = len(tokenPrefix) + 4
)

// Secret is a token, or a browser's session, as its holder knows it. It prints as a hint, so that it does not get into a
// log by accident.
type Secret string

// NewSecret makes a token of 256 random bits.
func NewSecret() Secret { return newSecret(tokenPrefix) }

func newSecret(prefix string) Secret {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends where there is no randomness
	return Secret(prefix + base64.RawURLEncoding.EncodeToString(b[:]))
}

// Hash is what the database knows of it.
func (s Secret) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

// Hint is the beginning, enough to tell tokens apart in a list and useless otherwise.
func (s Secret) Hint() string {
	if len(s) < 2*hintLength {
		return ""
	}
	return string(s[:hintLength])
}

// Reveal is the secret itself, for the one place that hands it out.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string { return s.Hint() + "…" }

// GoString is what %#v prints, which must not give it away either.
func (s Secret) GoString() string { return s.String() }

// wellFormed says whether it can be one of that kind at all; what cannot is not looked up.
func (s Secret) wellFormed(prefix string) bool {
	rest, ok := strings.CutPrefix(string(s), prefix)
	return ok && len(rest) == base64.RawURLEncoding.EncodedLen(secretBytes)
}

// InHeader says whether the value of a header Authorization holds a token or a session, of whatever form.
func InHeader(value string) bool {
	return slices.ContainsFunc(strings.Fields(value), func(word string) bool {
		return strings.HasPrefix(word, tokenPrefix) || strings.HasPrefix(word, sessionPrefix)
	})
}
