package forge

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound: the forge has no such thing (any more).
	ErrNotFound = errors.New("not found at the forge")
	// ErrBusy: the runner has a job, and is not to be touched (P7).
	ErrBusy = errors.New("the runner has a job")
	// ErrConflict: something of that name is there already.
	ErrConflict = errors.New("the forge has something of that name already")
	// ErrUnsupported: this forge, or this version of it, can't do that at this scope.
	ErrUnsupported = errors.New("the forge does not offer that")
	// ErrRefused: the credential is not good, or not good for that. Trying again does not help.
	ErrRefused = errors.New("the forge refuses the credential")
)

// Unwell: the forge did not answer, or answered that it can't. That has nothing to do with what it was asked for.
type Unwell struct{ Err error }

func (e *Unwell) Error() string { return e.Err.Error() }

func (e *Unwell) Unwrap() error { return e.Err }

// RateLimited: the forge wants to be left alone until an instant.
type RateLimited struct{ Until time.Time }

func (e *RateLimited) Error() string {
	return fmt.Sprintf("the forge's rate limit is reached, until %s", e.Until.UTC().Format(time.RFC3339))
}
