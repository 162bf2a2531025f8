package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *```(?:sh|console)\n(.*?)^ *```$")
	inlineCode = regexp.MustCompile("`(prewarm [^`]+)`")
	// invoked is the command line of prewarm within a line: up to what the shell takes as the end of a command.
	invoked = regexp.MustCompile(`(?:^|[|;&(] *|\$ |^ +|[A-Z_]=\S+ |sudo )(?:bin/)?prewarm ((?:'[^']*'|"[^"]*"|[^'"#|;&<>()\n])+)`)
	quoted  = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)
)

// Every command line of the README and the docs is one that the binary understands: the command is there, and so is each flag.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && entry.Name() == "archive" { // of earlier releases
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") && entry.Name() != "cli.md" { // which is made of the commands
			pages = append(pages, path)
		}
		return err
	}))
	n := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		var lines []string
		for _, block := range codeBlock.FindAllStringSubmatch(string(content), -1) {
			lines = append(lines, strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n")...)
		}
		for _, code := range inlineCode.FindAllStringSubmatch(strings.ReplaceAll(string(content), "\n", " "), -1) {
			lines = append(lines, code[1])
		}
		for _, line := range lines {
			for _, found := range invoked.FindAllStringSubmatch(line, -1) {
				n++
				assert.Empty(t, misunderstood(found[1]), "%s: %s", page, line)
			}
		}
	}
	require.Greater(t, n, 200, "the pages are not there")
	require.NotEmpty(t, misunderstood("presets list"))
	require.NotEmpty(t, misunderstood("preset liszt"))
	require.NotEmpty(t, misunderstood("claim go/small --modus require"))
	require.Empty(t, misunderstood(`claim go/small --mode require --exec -- sh -c "ls --all"`))
}

// misunderstood is why the binary does not understand a command line.
func misunderstood(line string) string {
	var args []string
	for _, word := range quoted.FindAllStringSubmatch(line, -1) {
		args = append(args, word[1]+word[2]+word[3])
	}
	root := newApp(nil, nil, io.Discard, io.Discard).command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(joinWaitReady(args))
	if err != nil {
		return err.Error()
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if left := cmd.Flags().Args(); cmd.HasSubCommands() && len(left) > 0 && cmd.ValidArgsFunction == nil {
		return "no command " + left[0] + " of " + cmd.CommandPath()
	}
	return ""
}
