// Command prewarm is the whole of Prewarm: the server, and the command line that talks to one over coderd/sdk.
//
// One file holds one command. A command is made by a method of app, which carries what a process is given (arguments,
// environment, streams, the clock), so that tests run the same code in their own process. Commands return errors; what
// these mean for the exit status and for the reader is decided in one place, errors.go:
//
//	0  done
//	1  it went wrong; stderr says what, and what to do
//	2  the command line is wrong; nothing was done
//	3  no warm workspace to claim
//
// A claimed or entered workspace's command ends with its own status instead. On stdout is only what was asked for, as a
// table or with -o json as JSON whose fields are those of the API; hints go to stderr.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules and sizes have timezones, and small images have none

	"github.com/coder/quartz"
)

func main() {
	branchOff(os.Args)
	ctx, stop := untilSignal(context.Background())
	status := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the process without its globals: it returns the exit status.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(env, stdin, stdout, stderr)
	a.clock = quartz.NewReal()
	a.host()
	return a.run(ctx, args)
}

// untilSignal ends the context at the first SIGINT or SIGTERM, so that what is under way can finish or be undone. The
// second one ends the process at once, with the status that a shell gives to a process killed by it.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		if s, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	}()
	return ctx, cancel
}
