package main

import (
	"errors"
	"fmt"
)

// A measurement that fails ends at once, wherever it is: there is nobody to go on without it. must and get end it with what
// failed, deferred calls clean up, and attempt returns the error to whoever goes on with the next measurement.

type failure struct{ error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func get[T any](v T, err error) T {
	must(err)
	return v
}

func fail(format string, args ...any) { must(fmt.Errorf(format, args...)) }

// within says where it was that something failed.
func within(where string, do func()) {
	if err := attempt(do); err != nil {
		fail("%s: %w", where, err)
	}
}

// attempt returns what ended do; any other panic goes on.
func attempt(do func()) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = f.error
		default:
			panic(f)
		}
	}()
	do()
	return nil
}

// failures are of measurements after which others go on.
type failures []error

// unless is false where do failed, which is noted under that name.
func (f *failures) unless(name string, do func()) bool {
	err := attempt(do)
	if err != nil {
		*f = append(*f, fmt.Errorf("%s: %w", name, err))
	}
	return err == nil
}

func (f *failures) must() { must(errors.Join(*f...)) }
