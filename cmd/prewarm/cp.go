package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/tree"
)

func (a *app) cpCommand() *cobra.Command {
	var recursive bool
	cmd := newCommand("cp SOURCE TARGET", "Copy files to or from a workspace",
		`Copies a file, or with -r a directory, to or from a workspace that you claimed. Its side is WORKSPACE:PATH,
where PATH is relative to the directory of the workspace or absolute. A target that is a directory gets the source under its
own name.

The other side is a local path. Write ./ before one that has a colon. A - is the standard input or output, with -r as a tar
archive.

A file is replaced in one step. What was cut off changes nothing.`,
		`  prewarm cp main.go prebuild-aebagbafaydqqcikbmga2:src/
  prewarm cp -r src prebuild-aebagbafaydqqcikbmga2:
  prewarm cp prebuild-aebagbafaydqqcikbmga2:/var/log/build.log .
  prewarm cp -r prebuild-aebagbafaydqqcikbmga2:out - | tar t`,
		a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			from, fromThere := remoteOf(args[0])
			to, toThere := remoteOf(args[1])
			if fromThere == toThere {
				return usageErrorf("one of SOURCE and TARGET must be in a workspace: write it as WORKSPACE:PATH")
			}
			if toThere {
				return a.upload(ctx, c, args[0], to, recursive)
			}
			return a.download(ctx, c, from, args[1], recursive)
		}))
	cmd.PreRunE = a.unanswered("files are copied without an answer")
	cmd.ValidArgsFunction = a.completeCopy()
	cmd.SuggestFor = []string{"copy", "scp", "upload", "download", "rsync"}
	cmd.Args = exactArgs
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy a directory with all that is in it")
	return cmd
}

// remote is a path in a workspace.
type remote struct{ workspace, path string }

// remoteOf splits WORKSPACE:PATH. As with scp, a colon after a slash is of a local name.
func remoteOf(arg string) (r remote, ok bool) {
	workspace, path, ok := strings.Cut(arg, ":")
	if !ok || workspace == "" || strings.Contains(workspace, "/") {
		return remote{}, false
	}
	return remote{workspace, path}, true
}

// under is where something of that name goes: into a directory that is there, or in its place.
func (r remote) under(ctx context.Context, c *sdk.Client, name string) (remote, error) {
	into := r.path == "" || strings.HasSuffix(r.path, "/")
	if !into {
		is, err := c.File(ctx, r.workspace, r.path, true)
		if err != nil && sdk.StatusOf(err) != http.StatusNotFound {
			return r, err
		}
		into = err == nil && is.Type == "directory"
	}
	if into {
		if name == "" {
			return r, usageErrorf("what comes from the standard input has no name: write one after %s:%s", r.workspace, r.path)
		}
		r.path = path.Join(r.path, name)
	}
	return r, nil
}

func (a *app) upload(ctx context.Context, c *sdk.Client, from string, to remote, recursive bool) error {
	if from == "-" && recursive {
		return c.WriteTree(ctx, to.workspace, to.path, a.stdin, true)
	}
	name := ""
	if from != "-" {
		whole, err := filepath.Abs(from) // even . has a name then
		if err != nil {
			return xerrors.Errorf("find %s: %w", from, err)
		}
		name = filepath.Base(whole)
	}
	to, err := to.under(ctx, c, name)
	if err != nil {
		return err
	}
	if recursive {
		return a.uploadTree(ctx, c, from, to)
	}
	var content source = &counted{Reader: a.stdin}
	how := sdk.FileWrite{Size: -1}
	if from != "-" {
		f, info, err := openFile(from)
		if err != nil {
			return err
		}
		defer f.Close()
		content, how = start{f, info.Size()}, sdk.FileWrite{Size: info.Size(), Mode: fmt.Sprintf("%04o", info.Mode().Perm())}
	}
	defer a.progress(ctx, content, how.Size)()
	_, err = c.WriteFile(ctx, to.workspace, to.path, content, how)
	return err
}

func openFile(name string) (*os.File, fs.FileInfo, error) {
	f, info, err := tree.Open(os.OpenFile, name)
	if errors.Is(err, syscall.EISDIR) {
		err = xerrors.Errorf("%s is a directory: add -r", name)
	}
	return f, info, err
}

func (a *app) uploadTree(ctx context.Context, c *sdk.Client, from string, to remote) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return xerrors.Errorf("open directory: %w", err)
	}
	defer root.Close()
	r, w := io.Pipe()
	archived := make(chan error, 1)
	go func() {
		err := tree.Archive(ctx, w, root, tree.What{})
		_ = w.CloseWithError(err)
		archived <- err
	}()
	content := &counted{Reader: r}
	defer a.progress(ctx, content, -1)()
	err = c.WriteTree(ctx, to.workspace, to.path, content, true)
	_ = r.CloseWithError(err)
	if cause := <-archived; cause != nil && !errors.Is(cause, err) {
		return cause
	}
	return err
}

func (a *app) download(ctx context.Context, c *sdk.Client, from remote, to string, recursive bool) error {
	if info, err := os.Stat(to); to != "-" && (err == nil && info.IsDir() || strings.HasSuffix(to, "/")) {
		name := path.Base(from.path)
		if from.path == "" {
			name = from.workspace
		}
		if name == "/" || name == ".." {
			return usageErrorf("%s has no name: write one after %s", from.path, to)
		}
		to = filepath.Join(to, name)
	}
	open := func() (io.ReadCloser, int64, error) { return c.ReadFile(ctx, from.workspace, from.path) }
	if recursive {
		open = func() (io.ReadCloser, int64, error) {
			archive, err := c.ReadTree(ctx, from.workspace, from.path)
			return archive, -1, err
		}
	}
	content, size, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	counting := &counted{Reader: content}
	defer a.progress(ctx, counting, size)()
	switch {
	case to == "-":
		_, err = io.Copy(a.stdout, counting)
		return err
	case recursive:
		return extractInto(ctx, to, counting)
	}
	return writeLocal(to, counting)
}

func extractInto(ctx context.Context, dir string, archive io.Reader) error {
	if err := os.MkdirAll(dir, 0o777); err != nil { //nolint:gosec // the umask says who may use it
		return xerrors.Errorf("make directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return xerrors.Errorf("open directory: %w", err)
	}
	defer root.Close()
	return tree.Extract(ctx, root, archive)
}

// writeLocal replaces a file in one step. What is none, such as a pipe, is written as it comes.
func writeLocal(name string, content io.Reader) error {
	if whole, err := filepath.EvalSymlinks(name); err == nil {
		name = whole
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return xerrors.Errorf("open file: %w", err)
		}
		defer f.Close()
		_, err = io.Copy(f, content)
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return xerrors.Errorf("open directory: %w", err)
	}
	defer root.Close()
	return tree.Write(root, filepath.Base(name), content, tree.Options{})
}

// completeCopy completes workspaces that are claimed, and local files.
func (a *app) completeCopy() cobra.CompletionFunc {
	names := a.completeStates("claimed")
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 1 || strings.ContainsAny(typed, "./:") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		found, _ := names(cmd, nil, typed)
		for i, name := range found {
			name, what, _ := strings.Cut(name, "\t")
			found[i] = cobra.CompletionWithDesc(name+":", what)
		}
		return found, cobra.ShellCompDirectiveNoSpace
	}
}

// source is read, and says how far.
type source interface {
	io.Reader
	read() int64 // bytes
}

// counted counts what is read.
type counted struct {
	io.Reader
	bytes atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *counted) read() int64 { return c.bytes.Load() }

// start is the first bytes of a file, also of one that grows meanwhile. The system sends it by itself, without reads and writes of ours
// (sendfile), as net takes it for a file: its position says how far it is.
type start struct {
	file *os.File
	size int64
}

// SyscallConn has net take it for a file.
func (s start) SyscallConn() (syscall.RawConn, error) { return s.file.SyscallConn() }

// Close has net/http hand it on as it is. The file is closed by who opened it.
func (start) Close() error { return nil }

func (s start) Read(b []byte) (int, error) {
	left := s.size - s.read()
	if left <= 0 {
		return 0, io.EOF
	}
	return s.file.Read(b[:min(int64(len(b)), left)])
}

func (s start) read() int64 {
	at, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil { // it has been closed
		return s.size
	}
	return at
}

const progressEvery = 500 * time.Millisecond

// progress shows on a terminal how far something is that takes long, until end. The size is -1 where it is not known.
func (a *app) progress(ctx context.Context, of source, size int64) (end func()) {
	if _, on := terminal(a.stderr); !on {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	shown := false
	ticker := a.clock.TickerFunc(ctx, progressEvery, func() error {
		text := mebibytes(of.read())
		if size > 0 {
			text += " of " + mebibytes(size)
		}
		shown = true
		_, _ = fmt.Fprintf(a.stderr, "\r\x1b[K%s", text)
		return nil
	}, "cp")
	return func() {
		cancel()
		_ = ticker.Wait()
		if shown {
			_, _ = fmt.Fprint(a.stderr, "\r\x1b[K")
		}
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
