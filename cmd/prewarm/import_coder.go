package main

import (
	"cmp"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coder"
	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/printable"
)

// imported is what an import writes for programs.
type imported struct {
	Document   string       `json:"document"`
	NotCarried []coder.Left `json:"not_carried"`
}

func (a *app) importCoderCommand() *cobra.Command {
	var name, provider string
	cmd := newCommand("coder DIR", "Write a configuration file of a template of Coder",
		`Reads the directory of a template of Coder, and writes a file with a template of Prewarm that uses this directory as
it is. Parameters and presets of the directory become parameters and presets. Their prebuilds become pools, with schedules
and expiration. Scripts that run when the agent starts become its on_start.

What could not be carried over is listed on standard error, each with its file and line. With -o json or yaml it is part
of the output. Read the list before you apply the file.

The file names the directory by the path that you gave. So keep the file where you are, or change its spec.module. It
declares a provider of kind terraform, unless --provider names one that the server has.`,
		`  prewarm import coder ./docker > docker.yaml
  prewarm import coder ./docker --name dev --provider tf > dev.yaml
  prewarm import coder ./docker -o json
  prewarm apply -f docker.yaml --dry-run`,
		func(_ *cobra.Command, args []string) error {
			document, left, err := importCoder(args[0], name, provider)
			if err != nil {
				return err
			}
			if err := a.print(imported{document, left}, document); err != nil || a.machine() {
				return err
			}
			if len(left) > 0 {
				a.hint("Not carried over:")
			}
			for _, l := range left {
				a.hint("  %s", printable.Text(l.String()))
			}
			return nil
		})
	cmd.Flags().StringVar(&name, "name", "", "name of the template; that of the directory where left out")
	cmd.Flags().StringVar(&provider, "provider", "", "name of a provider of kind terraform that the server has")
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	return cmd
}

func importCoder(dir, name, provider string) (document string, left []coder.Left, err error) {
	archive, err := modules.Pack(dir)
	if err != nil {
		return "", nil, xerrors.Errorf("read %s: %w", dir, err)
	}
	files, err := modules.Read(archive)
	if err != nil {
		return "", nil, xerrors.Errorf("read %s: %w", dir, err)
	}
	template, err := coder.Read(files)
	if err != nil {
		return "", nil, err
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, xerrors.Errorf("find %s: %w", dir, err)
	}
	if dir = filepath.ToSlash(filepath.Clean(dir)); filepath.IsLocal(dir) {
		dir = "./" + dir
	}
	document, err = template.Document(coder.As{
		Name: cmp.Or(name, coder.Name(filepath.Base(whole))), Module: dir, Provider: cmp.Or(provider, "terraform"), Declare: provider == "",
	})
	return document, template.Left, err
}
