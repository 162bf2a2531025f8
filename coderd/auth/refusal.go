package auth

import (
	"errors"
	"fmt"
)

// The kinds of Refusal.
var (
	ErrForbidden = errors.New("forbidden")
	ErrInvalid   = errors.New("invalid")
	ErrConflict  = errors.New("conflict")
	ErrNotFound  = errors.New("not found")
)

// Refusal is an answer, not a failure. Its text is for the person who asked: take it out with errors.As, so that it is
// told without what it was wrapped in on the way.
type Refusal struct {
	Kind error // one of the above
	Text string
}

// Refuse makes one.
func Refuse(kind error, format string, args ...any) error {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return r.Text }
func (r *Refusal) Unwrap() error { return r.Kind }
