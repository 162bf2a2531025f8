package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coder/quartz"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// app is one run of the command line: what the process was given, and the values of the global flags.
type app struct {
	env     func(string) string
	environ []string // all of it
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	clock   quartz.Clock
	hosting

	giveUpFor         time.Duration // bounds what is still done after an interrupt
	completionTimeout time.Duration // how long somebody who pressed Tab is kept waiting

	url          string
	tokenFile    string
	organization string
	output       string

	started bool // the command line was right, and a command began to run
}

func newApp(env []string, stdin io.Reader, stdout, stderr io.Writer) *app {
	values := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		values[k] = v
	}
	return &app{
		env:     func(name string) string { return values[name] },
		environ: env,
		stdin:   stdin,
		stdout:  stdout,
		stderr:  stderr,

		giveUpFor:         3 * time.Second,
		completionTimeout: 2 * time.Second,
	}
}

// run executes the command line and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.command()
	root.SetArgs(joinWaitReady(args)) // never nil, which would mean those of the process
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exitStatus(cmd, err)
}

// command is the tree of all commands.
func (a *app) command() *cobra.Command {
	root := a.group("prewarm", "Keep pools of prebuilt workspaces warm, and claim one in milliseconds",
		`Prewarm keeps pools of prebuilt workspaces warm: dev environments, CI runners, agent sandboxes. A person, a
job or an agent claims a ready one in milliseconds instead of waiting minutes for a build.

The server's address is --url or PREWARM_URL; without a scheme it is https, and on this machine http. A server on this
machine is found by its data directory, which PREWARM_DATA_DIR names. Without one, commands go to the server of the last
login. The token is that of PREWARM_TOKEN, else the file of --token-file or PREWARM_TOKEN_FILE, else what "prewarm login"
saved for the address. For a server on this machine the last choice is the owner-token file in its data directory, if it
can be read. There is no flag for the token itself, because everybody on a machine can see the arguments of its processes.

Exit status: 0 done, 1 error, 2 wrong command line, 3 no warm workspace, 130 interrupted. After "workspace exec",
"claim --exec" and "ssh" it is the status of the command they ran.`,
		`  prewarm server --quickstart
  prewarm preset list
  prewarm claim quickstart/default`,
		append(a.hostCommands(),
			a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.tokenCommand(),
			a.presetCommand(), a.claimCommand(), a.workspaceCommand(), a.templateCommand(), a.planCommand(), a.applyCommand(), a.importCommand(),
			a.shortcut(a.workspaceReleaseCommand(), "workspace", "release", "return", "stop", "unclaim"),
			a.shortcut(a.workspaceExecCommand(), "workspace", "exec", "enter", "run"),
			a.sshCommand(), a.configSSHCommand(),
			a.portForwardCommand(),
			a.cpCommand(), a.processCommand(),
			a.shortcut(a.workspaceLogsCommand(), "workspace", "logs", "log"),
			a.shortcut(a.presetListCommand(), "preset", "status", "list", "ps", "get"),
			a.shortcut(a.presetNudgeCommand(), "preset", "nudge"),
			a.shortcut(a.presetExplainCommand(), "preset", "explain", "why", "describe"),
			a.doctorCommand(),
			a.providerCommand(), a.forgeCommand(), a.runnerCommand(), a.jobCommand(), a.inventoryCommand(), a.pauseCommand(), a.quotaCommand(), a.resumeCommand(),
			a.replicasCommand(), a.auditCommand(), a.adminCommand(),
			a.versionCommand(), a.cliDocsCommand(),
		)...,
	)
	root.Version = version()
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.PersistentPreRunE = a.begin
	root.SetVersionTemplate("prewarm {{.Version}}\n")

	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "address of the server (default that of a server on this machine, else of the last login, else "+defaultURL+")")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds the token")
	flags.StringVar(&a.organization, "organization", "", "organization to act in; the server's default where empty")
	flags.VisitAll(fromEnv) // those above
	flags.StringVarP(&a.output, "output", "o", "table", "output format: table, json or yaml; for claim also env, for preset list also wide")
	oneOf(root, "output", "table", "json", "yaml")
	return root
}

// shortcut is a command of a group at the top level, under its own name or another. It is
// suggested to who types one of the other words.
func (a *app) shortcut(cmd *cobra.Command, group, name string, suggestFor ...string) *cobra.Command {
	before := cmd.Name()
	cmd.Use = name + strings.TrimPrefix(cmd.Use, before)
	cmd.Long = fmt.Sprintf("The same as \"prewarm %s %s\". ", group, before) + cmd.Long
	cmd.Example = strings.ReplaceAll(cmd.Example, "prewarm "+group+" "+before, "prewarm "+name)
	cmd.SuggestFor = suggestFor
	return cmd
}

// newCommand is a command. Its flags come later, and what few commands have, such as PreRunE.
func newCommand(use, short, long, example string, run runE) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, RunE: run}
}

// filledIn gives commands what follows from their Use: how many arguments there are, and what completes the first.
func (a *app) filledIn(commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		if cmd.Args == nil {
			cmd.Args = exactArgs
		}
		if words := strings.Fields(cmd.Use); len(words) > 1 && cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
			cmd.ValidArgsFunction = a.completions()[words[1]]
		}
	}
	return commands
}

// group is a command that only holds others: alone it shows its help.
func (a *app) group(use, short, long, example string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use:                        use,
		Short:                      short,
		Long:                       long,
		Example:                    example,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
	}
	g.AddCommand(a.filledIn(commands...)...)
	return g
}

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		return usageErrorf("unknown command %q; did you mean \"%s\"?", args[0], strings.Join(similar, `" or "`))
	}
	return usageErrorf("unknown command %q", args[0])
}

// outputs is the annotation of a command whose formats are other than table, json and yaml.
const outputs = "prewarm_outputs"

// begin runs before every command. Errors up to here are errors of usage.
func (a *app) begin(cmd *cobra.Command, _ []string) error {
	if err := a.takeEnv(cmd); err != nil {
		return err
	}
	allowed := []string{"table", "json", "yaml"}
	if more, ok := cmd.Annotations[outputs]; ok {
		allowed = strings.Split(more, ",")
	}
	if !slices.Contains(allowed, a.output) {
		return usageErrorf("unknown output format %q: it is one of %s", a.output, strings.Join(allowed, ", "))
	}
	a.started = true
	return nil
}

// terminal returns the file descriptor of a stream that is a terminal.
func terminal(stream any) (fd int, ok bool) {
	f, isFile := stream.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// must is for mistakes in this program, such as the completion of a flag that does not exist.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
