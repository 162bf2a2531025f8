package ssh

import (
	"bytes"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// account is as whom a connection acts.
type account struct {
	user  string // empty: as the agent
	dir   string // empty: that of the workspace
	shell string
}

// errUser: only root can be another user.
var errUser = errors.New("the agent is not root, and so there is only its own user here: log in as " + sdk.SSHUser)

// accountOf finds the account of the name that a client logs in with.
func (s *Server) accountOf(name string) (account, error) {
	own := account{shell: shellOf(os.Geteuid())}
	for _, kv := range s.table.Env {
		if shell, ok := strings.CutPrefix(kv, "SHELL="); ok && shell != "" {
			own.shell = shell
		}
	}
	if name == sdk.SSHUser {
		return own, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, xerrors.Errorf("log in as %s, or as a user that there is: %w", sdk.SSHUser, err)
	}
	uid, err := strconv.Atoi(u.Uid)
	switch {
	case err != nil:
		return account{}, xerrors.Errorf("find user %s: %w", name, err)
	case uid == os.Geteuid():
		return own, nil
	case os.Geteuid() != 0:
		return account{}, errUser
	}
	other := account{user: name, dir: u.HomeDir, shell: shellOf(uid)}
	if info, err := os.Stat(other.dir); err != nil || !info.IsDir() {
		other.dir = "/"
	}
	return other, nil
}

// shellOf is the shell of a user. One that lets nobody log in does not count: who is here may run what they like.
func shellOf(uid int) string {
	content, _ := os.ReadFile("/etc/passwd") // where there is none, nobody has a shell of their own
	for line := range bytes.Lines(content) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(fields) < 7 || fields[2] != strconv.Itoa(uid) {
			continue
		}
		if base := filepath.Base(fields[6]); fields[6] != "" && base != "nologin" && base != "false" {
			return fields[6]
		}
	}
	return "/bin/sh"
}
