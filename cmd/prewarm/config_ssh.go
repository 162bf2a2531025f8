package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"
)

// The lines around what this command writes. Between them nothing is anybody else's.
const (
	sshBlockBegin = "# >>> prewarm: written by prewarm config-ssh, which replaces all up to the end mark"
	sshBlockEnd   = "# <<< prewarm"
)

// sshConfigChange is what config-ssh did, or would do.
type sshConfigChange struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Block   string `json:"block"`
}

func (a *app) configSSHCommand() *cobra.Command {
	var dryRun, remove bool
	cmd := newCommand("config-ssh", "Have ssh, scp, rsync and editors know workspaces as hosts",
		`Writes a block for the hosts *.prewarm into ~/.ssh/config, and leaves all else there as it is. After it,
"ssh NAME.prewarm" opens a shell in the workspace NAME that you claimed. So do scp, sftp, rsync, git and editors such as
VS Code with Remote-SSH. The block names this program, and the server that commands go to now. Run it again after a change of
these; a token in PREWARM_TOKEN is not kept, so log in before.`,
		`  prewarm config-ssh
  prewarm config-ssh --dry-run
  ssh prebuild-aebagbafaydqqcikbmga2.prewarm`,
		func(*cobra.Command, []string) error {
			block := ""
			if !remove {
				options, err := a.sshOptions()
				if err != nil {
					return err
				}
				block = sshBlock(options)
			}
			change, err := writeSSHBlock(filepath.Join(a.env("HOME"), ".ssh", "config"), block, dryRun)
			if err != nil {
				return err
			}
			switch {
			case dryRun && block != "":
				return a.print(change, block)
			case !change.Changed:
				return a.printf(change, "%s is as it should be\n", change.File)
			case dryRun:
				return a.printf(change, "the block in %s would be removed\n", change.File)
			case remove:
				return a.printf(change, "removed the block from %s\n", change.File)
			}
			return a.printf(change, "wrote %s; open a shell with: ssh NAME%s\n", change.File, sshSuffix)
		})
	cmd.Args = exactArgs
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the block, and write nothing")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the block")
	return cmd
}

// sshBlock ends with a section for all hosts: what follows in the file was for all before.
func sshBlock(options []sshOption) string {
	var b strings.Builder
	b.WriteString(sshBlockBegin + "\nHost *" + sshSuffix + "\n")
	for _, o := range options {
		b.WriteString("  " + o.name + " " + o.value + "\n")
	}
	b.WriteString("Host *\n" + sshBlockEnd + "\n")
	return b.String()
}

// writeSSHBlock puts a block, or none, in the place of the one that is there, or at the beginning: of each setting, ssh takes the
// first.
func writeSSHBlock(path, block string, dryRun bool) (sshConfigChange, error) {
	change := sshConfigChange{File: path, Block: block}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := fs.FileMode(0o600)
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return change, xerrors.Errorf("read configuration of ssh: %w", err)
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	head, rest, err := aroundSSHBlock(before)
	if err != nil {
		return change, xerrors.Errorf("%s %w", change.File, err)
	}
	after := append(append(bytes.Clone(head), block...), rest...)
	if change.Changed = !bytes.Equal(before, after); !change.Changed || dryRun {
		return change, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return change, xerrors.Errorf("write configuration of ssh: %w", err)
	}
	return change, replaceFile(path, after, mode)
}

// aroundSSHBlock is what stands before and after the block; nothing is before it where there is none.
func aroundSSHBlock(content []byte) (head, rest []byte, err error) {
	begin, end, at := -1, -1, 0
	for line := range bytes.Lines(content) {
		switch text := string(bytes.TrimRight(line, "\r\n")); {
		case text == sshBlockBegin && begin < 0:
			begin = at
		case text == sshBlockEnd && begin >= 0 && end < 0:
			end = at + len(line)
		case text == sshBlockBegin, text == sshBlockEnd:
			return nil, nil, errors.New("has a mark of prewarm too many: remove its lines by hand")
		}
		at += len(line)
	}
	switch {
	case begin < 0:
		return nil, content, nil
	case end < 0:
		return nil, nil, errors.New("lacks the end mark of prewarm: remove its lines by hand")
	}
	return content[:begin], content[end:], nil
}
