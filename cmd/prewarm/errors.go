package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	statusError       = 1
	statusUsage       = 2
	statusMiss        = 3
	statusInterrupted = 130
)

// usageError is a command line that cannot be carried out; nothing was done.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usageErrorf(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// usageErrorIf is an error of usage if the command line is wrong in a way.
func usageErrorIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return usageErrorf(format, args...)
}

// exitError ends the process with a status. Message may be empty: then all is said.
type exitError struct {
	status  int
	message string
}

func (e *exitError) Error() string { return e.message }

// exitStatus tells the reader what went wrong and returns the status to end with.
func (a *app) exitStatus(cmd *cobra.Command, err error) int {
	var exit *exitError
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.message != "" {
			a.complain(exit.message)
		}
		return exit.status
	case errors.As(err, &usage), !a.started:
		a.complain(fmt.Sprintf("%v (see %q)", err, cmd.CommandPath()+" --help"))
		return statusUsage
	case errors.Is(err, context.Canceled):
		a.complain("interrupted")
		return statusInterrupted
	default:
		a.complain(a.explain(err))
		return statusError
	}
}

// complain writes to stderr under the program's name.
func (a *app) complain(message string) {
	_, _ = fmt.Fprintf(a.stderr, "prewarm: %s\n", printable.Text(message))
}

// explain adds to an error what the reader can do about it.
func (a *app) explain(err error) string {
	var unreachable *url.Error
	switch {
	case sdk.StatusOf(err) == http.StatusUnauthorized:
		return fmt.Sprintf("%v (log in with %q, or set PREWARM_TOKEN)", err, "prewarm login")
	case errors.As(err, &unreachable):
		return a.explainUnreachable(unreachable)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("%v (is another server running? listen elsewhere with --listen)", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%v (are you the right user?)", err)
	default:
		return err.Error()
	}
}

func (a *app) explainUnreachable(err *url.Error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s (start a server with %q, or name another with --url or PREWARM_URL)",
			a.url, "prewarm server --quickstart")
	case errors.As(err, &dns):
		return fmt.Sprintf("the host of %s cannot be found: %v (name another with --url or PREWARM_URL)", a.url, dns)
	case err.Timeout():
		return fmt.Sprintf("%s does not answer: %v (can it be reached from here?)", a.url, err.Err)
	default:
		return fmt.Sprintf("cannot talk to %s: %v (is it a Prewarm server, and is the address right?)", a.url, err.Err)
	}
}
