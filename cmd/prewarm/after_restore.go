//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd"
)

func (a *app) afterRestoreCommand() *cobra.Command {
	var opts coderd.Options
	var postgresURLFile string
	var nothingLost bool
	cmd := newCommand("after-restore", "Make a database that was put back from a backup fit to run on",
		`Sees to what a backup does not know, on the database itself, while no server runs. A server refuses to start on a
restored database before that.

What looks unclaimed in the backup may have been claimed since. It is quarantined: neither handed out nor deleted
until somebody looked and deleted it. What was made after the backup is unknown to it; the server leaves it alone and
reports it. All tokens end, as one that was revoked since would be good again; each server makes a new one for the owner
when it starts.

A restore of a whole cluster, from its files or from archived WAL, cannot be noticed: run this before the servers start.`,
		`  prewarm admin after-restore --postgres-url-file /run/secrets/postgres-url
  prewarm admin after-restore --nothing-was-lost`,
		func(cmd *cobra.Command, _ []string) error {
			opts.Listen, opts.Tick = "127.0.0.1:0", 1 // nobody listens, nothing ticks
			if err := a.completeOptions(&opts, postgresURLFile); err != nil {
				return err
			}
			opts.Stdout, opts.Stderr = a.stdout, a.stderr
			done, err := coderd.AfterRestore(cmd.Context(), opts, nothingLost)
			if err != nil {
				return err
			}
			a.hint("The servers can be started.")
			return a.printf(done, "quarantined=%d missed=%d tokens=%d\n", len(done.Quarantined), done.Missed, done.Tokens)
		})
	flags := cmd.Flags()
	flags.StringVar(&opts.DataDir, "data-dir", "", "of a server with a database of its own (default ~/.local/share/prewarm)")
	flags.StringVar(&opts.PostgresURL, "postgres-url", "", "database that was restored; prefer the file or the variable")
	flags.StringVar(&postgresURLFile, "postgres-url-file", "", "file that holds the URL of the database")
	flags.VisitAll(fromEnv) // those above
	flags.BoolVar(&nothingLost, "nothing-was-lost", false,
		"the database was moved or upgraded while no server ran: leave everything as it is")
	return cmd
}
