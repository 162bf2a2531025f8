package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// sshSuffix makes a host of ssh of the name of a workspace.
const sshSuffix = ".prewarm"

func (a *app) sshCommand() *cobra.Command {
	var stdio bool
	cmd := newCommand("ssh WORKSPACE [-- COMMAND...]", "Open a shell in a workspace by SSH, or run a command",
		`Runs ssh, which must be installed, with a connection into a workspace that you claimed. Nothing asks for
a password, a key or a host key. Only you get through to it, and the server says which host key is right. The status is
that of ssh, which is that of the command.

The words of a command stay words; one word alone is a text for the shell in the workspace. If this is a terminal the
command gets one too.

The template needs an agent. With --stdio this command is the connection alone, as ProxyCommand for ssh: "prewarm
config-ssh" has ssh, scp, sftp, rsync, git and editors use it.`,
		`  prewarm ssh prebuild-aebagbafaydqqcikbmga2
  prewarm ssh prebuild-aebagbafaydqqcikbmga2 -- make test
  prewarm ssh prebuild-aebagbafaydqqcikbmga2 -- 'cd src && make >log'`,
		func(cmd *cobra.Command, args []string) error {
			name := strings.TrimSuffix(args[0], sshSuffix)
			if stdio {
				return a.sshStdio(cmd.Context(), name)
			}
			return a.runSSH(cmd.Context(), name, args[1:])
		})
	cmd.PreRunE = a.unanswered("the output is the command's")
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.SuggestFor = []string{"shell", "connect"}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		switch {
		case len(args) == 0 || dash == 0:
			return usageErrorf("WORKSPACE is missing")
		case len(args) > 1 && dash != 1:
			return usageErrorf("write the command after --, so that its flags are its own")
		case len(args) > 1 && stdio:
			return usageErrorf("--stdio takes no command: ssh brings it")
		case !workspaceHost.MatchString(args[0]):
			return usageErrorf("%q is no name of a workspace", args[0])
		}
		return nil
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "be the connection, on standard input and output, and run no ssh")
	return cmd
}

// workspaceHost is what may be given to ssh as a host.
var workspaceHost = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// runSSH runs the ssh of this machine.
func (a *app) runSSH(ctx context.Context, name string, command []string) error {
	path, err := exec.LookPath("ssh")
	if err != nil {
		return xerrors.Errorf("ssh is not installed: install openssh-client, or use %q", "prewarm exec "+name+" -- sh")
	}
	options, err := a.sshOptions()
	if err != nil {
		return err
	}
	var args []string
	for _, o := range options {
		args = append(args, "-o", o.name+"="+o.value)
	}
	if _, ok := terminal(a.stdin); ok && len(command) > 0 {
		if _, ok := terminal(a.stdout); ok {
			args = append(args, "-t")
		}
	}
	if len(command) > 1 { // ssh joins them by spaces, for the shell at the other end
		for i, word := range command {
			command[i] = shellWord(word)
		}
	}
	args = append(append(args, "--", name+sshSuffix), command...)
	ssh := exec.CommandContext(ctx, path, args...)
	ssh.Env, ssh.Stdin, ssh.Stdout, ssh.Stderr = a.environ, a.stdin, a.stdout, a.stderr
	err = ssh.Run()
	if exit, ended := errors.AsType[*exec.ExitError](err); ended && ctx.Err() == nil {
		return endWith(exit.ExitCode(), nil)
	}
	if err != nil {
		return xerrors.Errorf("run ssh: %w", err)
	}
	return nil
}

// sshStdio connects standard input and output with the SSH server in a workspace. ssh knows the host key then.
func (a *app) sshStdio(ctx context.Context, name string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	said, err := client.SSHHostKey(ctx, name)
	if err != nil {
		return err
	}
	if err := a.rememberHostKey(strings.ToLower(name)+sshSuffix, said.HostKey); err != nil {
		return err
	}
	stream, err := client.DialSSH(ctx, name)
	if err != nil {
		return err
	}
	defer stream.Cut()
	stop := context.AfterFunc(ctx, stream.Cut)
	defer stop()
	go func() {
		if _, err := io.Copy(stream, a.stdin); err != nil {
			stream.Cut()
			return
		}
		_ = stream.CloseWrite()
	}()
	_, err = io.Copy(a.stdout, stream)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, sdk.ErrClaimEnded):
		return xerrors.Errorf("the claim of workspace %s has ended", name)
	case err != nil:
		return xerrors.Errorf("the connection into workspace %s has ended: %w", name, err)
	}
	return nil
}
