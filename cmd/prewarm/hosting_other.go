//go:build !linux

package main

import (
	"github.com/spf13/cobra"
	"golang.org/x/xerrors"
)

// hosting is nothing where this binary is a client alone.
type hosting struct{}

func (*app) host() {}

func branchOff([]string) {}

func (*app) hostCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use:   "server",
		Short: "Run a server (on Linux)",
		Args:  cobra.ArbitraryArgs,

		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return xerrors.New("the server runs on Linux; this binary has the client commands: point --url or PREWARM_URL at a server")
		},
	}}
}

func (*app) hostAdminCommands() []*cobra.Command { return nil }
