package main

import (
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
	var file, plan string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make templates and presets what a file says",
		Long: `Reads templates with their presets from a YAML file, or from standard input for "-", and makes the
server have them so. What the file does not name is left alone. Everything wrong with the file is reported at once,
with line and column, and then nothing is changed. Applying the same file again changes nothing.

With --dry-run it only says what would change. With --plan it is refused if what that plan depends on has moved since;
the file may be left out then, and is the plan's.`,
		Example: `  prewarm apply -f examples/quickstart.yaml --dry-run
  prewarm apply -f examples/quickstart.yaml
  prewarm apply --plan 0f8e2b7c-5d0f-4a57-9a53-6f1f0c1e7d11
  generate-presets | prewarm apply -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" && plan == "" {
				return usageErrorf("-f FILE is missing; - reads standard input")
			}
			req := sdk.ApplyRequest{File: file, DryRun: dryRun, Plan: plan}
			var err error
			if file != "" {
				if req.Document, err = a.readDocument(file); err != nil {
					return err
				}
			}
			if file == "-" {
				req.File = "stdin"
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			result, err := client.Apply(cmd.Context(), req)
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
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the file; - is standard input")
	cmd.Flags().StringVar(&plan, "plan", "", "id of a plan: refuse if what it depends on has moved")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	return cmd
}

func (a *app) readDocument(file string) (string, error) {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", xerrors.Errorf("read document: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, documentLimit+1))
	if err != nil {
		return "", xerrors.Errorf("read document: %w", err)
	}
	if len(content) > documentLimit {
		return "", xerrors.Errorf("read document: %s is larger than %d KiB (split it: each file can hold some templates)",
			file, documentLimit>>10)
	}
	return string(content), nil
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
