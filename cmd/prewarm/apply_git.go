package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
)

// pack makes the archive of a module: of a directory, or of a commit in Git.
func (a *app) pack(ctx context.Context, source string) (archive []byte, err error) {
	if !modules.InGit(source) {
		return modules.Pack(source)
	}
	g, err := parseGit(source)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "prewarm-git-")
	if err != nil {
		return nil, xerrors.Errorf("make a directory for git: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if !a.machine() {
		a.hint("Fetching %s at %s.", g.url, g.commit[:12])
	}
	if err := checkOut(ctx, dir, g); err != nil {
		return nil, err
	}
	return modules.Pack(filepath.Join(dir, filepath.FromSlash(g.directory)))
}

// checkOut fetches a commit into an empty directory, by git and with the access that it has here. Submodules are left out.
func checkOut(ctx context.Context, dir string, g gitSource) error {
	if err := git(ctx, dir, "init", "--quiet"); err != nil {
		return err
	}
	// Some servers give a commit only to who asks for what leads to it.
	if git(ctx, dir, "fetch", "--quiet", "--no-tags", "--depth=1", "--", g.url, g.commit) != nil {
		err := git(ctx, dir, "fetch", "--quiet", "--no-tags", "--", g.url, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
		if err != nil {
			return err
		}
		if git(ctx, dir, "cat-file", "-e", g.commit+"^{commit}") != nil {
			return xerrors.Errorf("no branch or tag of %s leads to commit %s", g.url, g.commit)
		}
	}
	return git(ctx, dir, "checkout", "--quiet", "--detach", g.commit, "--")
}

// git runs it in a directory. The files are to be the same wherever they are checked out.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.autocrlf=false"}, args...)...)
	// These say which repository is meant, where this command runs in a hook of one.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"}, name)
	})
	said, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("git, which fetches it, is not installed")
	case err != nil:
		return xerrors.Errorf("git %s: %s", args[0], strings.Join(strings.Fields(string(said)), " "))
	}
	return nil
}
