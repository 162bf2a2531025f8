package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// documentLimit is what the server takes, in bytes; reading more would only waste memory.
const documentLimit = 1 << 20

func (a *app) applyCommand() *cobra.Command {
	var req sdk.ApplyRequest
	cmd := newCommand("apply", "Make templates and presets what a file says",
		`Reads templates with their presets from a YAML file, or from standard input for "-", and makes the
server have them so. What the file does not name is left alone. Everything wrong with the file is reported at once,
with line and column, and then nothing is changed. Applying the same file again changes nothing.

At a provider of kind terraform the module of a spec may be a directory, such as "module: ./vm". It is relative to the
file, or with "-" to the working directory. It is uploaded where the server does not have it, also with --dry-run.
So is a commit in Git, such as "module: git::https://example.com/modules.git//vm?ref=COMMIT", which git fetches first.

With --dry-run it only says what would change. With --plan it is refused if what that plan depends on has moved since;
the file may be left out then, and is the plan's.`,
		`  prewarm apply -f examples/quickstart.yaml --dry-run
  prewarm apply -f examples/quickstart.yaml
  prewarm apply -f modules/pool.yaml   # with "spec: {module: ./vm}", uploads modules/vm
  prewarm apply --plan 0f8e2b7c-5d0f-4a57-9a53-6f1f0c1e7d11
  generate-presets | prewarm apply -f -`,
		a.asks(func(ctx context.Context, c *sdk.Client, _ string) error {
			var err error
			if req.Document, err = a.withModules(ctx, c, req.File, req.Document); err != nil {
				return err
			}
			result, err := c.Apply(ctx, req)
			if err != nil {
				return err
			}
			if err := a.print(result, a.changesText(result.Changes)); err != nil {
				return err
			}
			if result.DryRun && len(result.Changes) > 0 && a.output == "table" {
				a.hint("Nothing was changed: this was a dry run.")
			}
			return nil
		}))
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if req.File == "" && req.Plan == "" {
			return usageErrorf("-f FILE is missing; - reads standard input")
		}
		req.File, req.Document, err = a.readDocument(req.File)
		return err
	}
	cmd.Flags().StringVarP(&req.File, "file", "f", "", "the file; - is standard input")
	cmd.Flags().StringVar(&req.Plan, "plan", "", "id of a plan: refuse if what it depends on has moved")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "say what would change, and change nothing")
	return cmd
}

// readDocument reads a file, standard input for "-", and returns what it is called and what is in it.
func (a *app) readDocument(file string) (name, content string, err error) {
	in := a.stdin
	switch file {
	case "":
		return "", "", nil
	case "-":
		name = "stdin"
	default:
		f, err := os.Open(file)
		if err != nil {
			return "", "", xerrors.Errorf("read document: %w", err)
		}
		defer func() { _ = f.Close() }()
		name, in = file, f
	}
	all, err := io.ReadAll(io.LimitReader(in, documentLimit+1))
	if err != nil {
		return "", "", xerrors.Errorf("read document: %w", err)
	}
	if len(all) > documentLimit {
		return "", "", xerrors.Errorf("read document: %s is larger than %d KiB (split it: each file can hold some templates)",
			file, documentLimit>>10)
	}
	return name, string(all), nil
}

func (a *app) changesText(changes []sdk.Change) string {
	if len(changes) == 0 {
		return "Nothing to change.\n"
	}
	t := a.newTable("ACTION", "KIND", "NAME", "CHANGES", "EFFECT")
	for _, c := range changes {
		t.add(actionCell(c.Action), c.Kind, c.Name, strings.Join(c.Fields, ", "), c.Effect)
	}
	return t.String()
}

func actionCell(action string) cell {
	switch action {
	case "create":
		return cell{action, green}
	case "delete":
		return cell{action, red}
	default:
		return cell{action, yellow}
	}
}
