package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/tree"
)

// mostHostKeys is how many are kept. One that is forgotten is written again by the next connection.
const mostHostKeys = 1000

// sshOption is a setting of ssh.
type sshOption struct{ name, value string }

// sshOptions are those with which ssh gets into workspaces, and asks nothing.
func (a *app) sshOptions() ([]sshOption, error) {
	own, err := ownPath()
	if err != nil {
		return nil, err
	}
	proxy := []string{own, "--url", a.server()}
	if a.organization != "" {
		proxy = append(proxy, "--organization", a.organization)
	}
	if a.tokenFile != "" {
		path, err := filepath.Abs(a.tokenFile)
		if err != nil {
			return nil, xerrors.Errorf("find token file: %w", err)
		}
		proxy = append(proxy, "--token-file", path)
	}
	for i, word := range proxy {
		proxy[i] = strings.ReplaceAll(shellWord(word), "%", "%%")
	}
	return []sshOption{
		{"User", sdk.SSHUser},
		{"Port", "22"},
		{"ProxyCommand", strings.Join(proxy, " ") + " ssh --stdio %h"},
		{"UserKnownHostsFile", `"` + a.knownHosts() + `"`},
		{"GlobalKnownHostsFile", "/dev/null"},
		{"StrictHostKeyChecking", "yes"},
		{"CheckHostIP", "no"},
		{"UpdateHostKeys", "no"},
		{"PreferredAuthentications", "none"},
	}, nil
}

// ownPath is where this program is: as PATH has it, which an upgrade keeps, else the file itself.
func ownPath() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", xerrors.Errorf("find this program: %w", err)
	}
	found, err := exec.LookPath("prewarm")
	if err != nil || !filepath.IsAbs(found) {
		return own, nil //nolint:nilerr // it is not in PATH
	}
	a, err1 := os.Stat(found)
	b, err2 := os.Stat(own)
	if err1 == nil && err2 == nil && os.SameFile(a, b) {
		return found, nil
	}
	return own, nil
}

// knownHosts is a file of Prewarm's own, the only one in which ssh looks for workspaces.
func (a *app) knownHosts() string {
	return filepath.Join(filepath.Dir(a.credentialsPath()), "known_hosts")
}

// rememberHostKey writes the key of a host, in the place of what was there, while ssh waits for its first byte. Others may do
// the same for other hosts.
func (a *app) rememberHostKey(host, text string) error {
	key, _, _, _, err := gossh.ParseAuthorizedKey([]byte(text)) // it comes from within a workspace, and must be one line
	if err != nil {
		return xerrors.Errorf("read host key: %w", err)
	}
	line := append([]byte(host+" "), gossh.MarshalAuthorizedKey(key)...)
	path := a.knownHosts()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return xerrors.Errorf("write host key: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return xerrors.Errorf("lock host keys: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return xerrors.Errorf("lock host keys: %w", err)
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return xerrors.Errorf("read host keys: %w", err)
	}
	var lines [][]byte
	for each := range bytes.Lines(before) {
		if bytes.Equal(each, line) {
			return nil
		}
		if !bytes.HasPrefix(each, []byte(host+" ")) {
			lines = append(lines, each)
		}
	}
	lines = append(lines, line)
	lines = lines[max(0, len(lines)-mostHostKeys):]
	return replaceFile(path, bytes.Join(lines, nil), 0o600)
}

// replaceFile replaces a file at once, so that nobody reads half of it.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	if err := tree.WriteFile(path, bytes.NewReader(content), tree.Options{Mode: &mode}); err != nil {
		return xerrors.Errorf("write %s: %w", path, err)
	}
	return nil
}
