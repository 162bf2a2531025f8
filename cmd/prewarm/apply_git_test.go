package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes one, and returns it with the commit of its files.
func repository(t *testing.T, files map[string]string, options ...string) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	writeFiles(t, dir, files)
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.Symlink(dir, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	run(append([]string{"init", "--quiet"}, options...)...)
	run("add", "--all")
	run("commit", "--quiet", "--message", "first")
	commit = run("rev-parse", "HEAD")
	writeFiles(t, dir, map[string]string{"vm/main.tf": "# later"})
	run("commit", "--quiet", "--all", "--message", "second")
	return dir, commit
}

// A module in Git is fetched at its commit and uploaded like a directory, so that it has the same digest; also where the server of
// the repository gives only branches, and where this command is part of a hook of another repository.
func TestApply_git(t *testing.T) {
	files := map[string]string{"vm/main.tf": "# first\n", "vm/sub/x.txt": "x", "other/main.tf": ""}
	dir, commit := repository(t, files)
	writeFiles(t, filepath.Join(dir, "copy"), map[string]string{"main.tf": "# first\n", "sub/x.txt": "x"})
	digest := digestOf(t, filepath.Join(dir, "copy"))
	source := "git::file://" + dir + "//vm?ref=" + commit
	t.Setenv("TMPDIR", t.TempDir())
	for _, name := range []string{"GIT_DIR", "GIT_INDEX_FILE"} {
		t.Setenv(name, filepath.Join(dir, "none"))
	}
	for _, version := range []string{"2", "0"} { // the old one has no requests for a commit that no branch ends at
		t.Setenv("GIT_CONFIG_COUNT", "1")
		t.Setenv("GIT_CONFIG_KEY_0", "protocol.version")
		t.Setenv("GIT_CONFIG_VALUE_0", version)
		s := newModuleServer(t)
		sh := newShell(t, s.URL)
		sh.stdin = strings.NewReader("templates:\n  - {name: a, provider: tf, spec: {module: '" + source + "', outputs: {}}}\n")
		got := sh.run("apply", "-f", "-")
		asked := strings.Join(s.asked(), "\n")
		if got.status != 0 || s.uploads != 1 || !strings.Contains(asked, "{module: "+digest+", outputs: {}}") {
			t.Errorf("%s, asked %s", got, asked)
		}
		want := "Fetching file://" + dir + " at " + commit[:12] + ".\nUploaded " + source + " (3.0 KiB).\n"
		if got.stderr != want {
			t.Errorf("said %q, wanted %q", got.stderr, want)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestApply_git_refused(t *testing.T) {
	dir, commit := repository(t, map[string]string{"vm/main.tf": ""})
	t.Setenv("TMPDIR", t.TempDir())
	for source, want := range map[string]string{
		"git::file://" + dir + "//vm?ref=main":                               "name the commit in full",
		"git::file://" + dir + "//none?ref=" + commit:                        "the commit has no such directory",
		"git::file://" + dir + "//vm?ref=" + strings.Repeat("0123456789", 4): "no branch or tag of file://" + dir + " leads to commit 0123456789",
		"git::https://u:to@token@example.com/b.git?ref=" + commit:            "leave the user",
		"git::HTTPS://token@example.com/b.git?ref=" + commit:                 "",
		"git::ftp://u:token@example.com/b.git?ref=" + commit:                 "begin with",
		"git::https://example.com/b.git?access=token&ref=" + commit:          "only ref may follow",
		"git::file://" + dir + "//linked?ref=" + commit:                      `"linked" is no directory of the commit`,
		"git::file://" + dir + "//linked/vm?ref=" + commit:                   `"linked/vm" is no directory of the commit`,
		"git::file://" + dir + "//.git?ref=" + commit:                        "the commit has no such directory",
		"git::https://token@example.com/b.git?ref=" + commit:                 "git::https://***@example.com/b.git: leave the user",
		"git::ssh://a:token@example.com/b.git?ref=" + commit:                 "git::ssh://***@example.com/b.git: leave the user",
		"git::file://" + dir + "/none//vm?ref=" + commit:                     "git fetch: fatal:",
	} {
		s := newModuleServer(t)
		sh := newShell(t, s.URL)
		sh.stdin = strings.NewReader("templates:\n  - {name: a, provider: tf, spec: {module: '" + source + "'}}\n")
		got := sh.run("apply", "-f", "-")
		if got.status != 1 || !strings.Contains(got.stderr, "stdin:2:") || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: wanted %s, got %s", source, want, got)
		}
		if strings.Contains(got.stderr, "token") {
			t.Errorf("the secret is shown: %s", got)
		}
		if asked := s.asked(); len(asked) != 1 {
			t.Errorf("%s: the server was asked %v", source, asked)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
