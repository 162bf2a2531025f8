package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/tree"
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
	return packWithin(dir, g.directory)
}

// packWithin makes the archive of a directory of a checkout. A link on the way to it could lead to anything of this machine.
func packWithin(checkout, directory string) ([]byte, error) {
	missing := errors.New("the commit has no such directory")
	path := strings.Split(directory, "/")
	if slices.Contains(path, ".git") { // the checkout's own
		return nil, missing
	}
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return nil, xerrors.Errorf("open the checkout: %w", err)
	}
	for _, name := range path {
		if name == "." {
			continue
		}
		sub, err := tree.Sub(root, name)
		_ = root.Close()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, missing
		case err != nil:
			return nil, xerrors.Errorf("%q is no directory of the commit: %w", directory, err)
		}
		root = sub
	}
	defer root.Close()
	return modules.PackRoot(root)
}

// elsewhere is what servers say of a commit that they give only to who asks for what leads to it.
var elsewhere = regexp.MustCompile(`not our ref|unadvertised object|couldn't find remote ref`)

// checkOut fetches a commit into an empty directory, by git and with the access that it has here. Submodules are left out.
func checkOut(ctx context.Context, dir string, g gitSource) error {
	format := "sha1"
	if len(g.commit) > 40 {
		format = "sha256"
	}
	if err := git(ctx, dir, "init", "--quiet", "--template=", "--object-format="+format); err != nil {
		return err
	}
	err := git(ctx, dir, "fetch", "--quiet", "--no-tags", "--depth=1", "--", g.url, g.commit)
	if err != nil && elsewhere.MatchString(err.Error()) {
		err = git(ctx, dir, "fetch", "--quiet", "--no-tags", "--", g.url, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
		if err == nil && git(ctx, dir, "cat-file", "-e", g.commit+"^{commit}") != nil {
			err = xerrors.Errorf("no branch or tag of %s leads to commit %s", g.url, g.commit)
		}
	}
	if err != nil {
		return err
	}
	return git(ctx, dir, "checkout", "--quiet", "--detach", g.commit, "--")
}

// Of a hook of another repository, which this command may be part of.
var anothers = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR",
	"GIT_PREFIX", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
}

// git runs it in a directory. The files are to be the same wherever they are checked out, and no hook runs.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
	cmd.WaitDelay = time.Second // for what git has started
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(anothers, name)
	}), "GIT_LFS_SKIP_SMUDGE=1", "LC_ALL=C")
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
