package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	envWorkspaceID = "PREWARM_WORKSPACE_ID"
	// envMark is in the environment of every process of a workspace, with its id, and by it they are found when the
	// workspace ends. It is never handed out: who claims a workspace may well put what was handed out into the environment
	// of a shell of this very machine, and that shell is not to end with the workspace.
	envMark = "PREWARM_MARK"
)

// workspace is the content of workspace.json.
type workspace struct {
	Name         string            `json:"name"`
	Tags         provider.Tags     `json:"tags"`
	Organization string            `json:"organization"`
	Template     string            `json:"template"`
	Preset       string            `json:"preset"`
	Spec         json.RawMessage   `json:"spec"`
	Parameters   map[string]string `json:"parameters,omitempty"`
	Port         int               `json:"port,omitempty"`      // 0: wants none
	AgentURL     string            `json:"agent_url,omitempty"` // of the server; empty: no agent
	UID          int               `json:"uid,omitempty"`       // of its processes and files; 0: those of the server
	CreatedAt    time.Time         `json:"created_at"`

	spec spec
}

// errUntagged is a directory that is not ours: it has no workspace.json, or that of another directory.
var errUntagged = errors.New("not a workspace of this provider")

// load reads a workspace: fs.ErrNotExist if there is nothing at its place, errUntagged if it is something else.
func load(d dir) (workspace, error) {
	var w workspace
	info, err := os.Lstat(string(d))
	if err != nil {
		return w, err
	}
	if !info.IsDir() {
		return w, errUntagged // a symbolic link too: we made none
	}
	content, err := os.ReadFile(d.workspaceFile())
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(string(d)); err != nil {
			return w, err // it was deleted between the two
		}
		return w, errUntagged
	}
	if err != nil {
		return w, err
	}
	if err := json.Unmarshal(content, &w); err != nil {
		return w, xerrors.Errorf("read %s: %w", d.workspaceFile(), err)
	}
	if w.Name != filepath.Base(string(d)) || w.Tags.WorkspaceID == uuid.Nil {
		return w, errUntagged
	}
	w.spec, _ = parseSpec(w.Spec, w.Parameters) // checked when it was made; what is there must be deletable for ever
	return w, nil
}

// write stores the workspace durably: a directory whose tag is lost in a power failure could never be deleted.
func (w workspace) write(d dir) error {
	content, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(d.workspaceFile(), content, true)
}

// tcpPort is the port under which the workspace is reached, 0 if there is none.
func (w workspace) tcpPort() int {
	return cmp.Or(w.Port, w.spec.readiness.tcp)
}

func (w workspace) addresses(d dir) []provider.Address {
	var a []provider.Address
	if port := w.tcpPort(); port != 0 {
		a = append(a, provider.Address{Type: "tcp", Address: loopback(port)})
	}
	return append(a, provider.Address{Type: "dir", Address: d.home()})
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// identity is what the workspace is told of itself, and whoever claims it of the workspace.
func (w workspace) identity(d dir) map[string]string {
	env := provider.Identity(w.Name, w.Tags, w.Template, w.Preset)
	env["PREWARM_DIR"] = d.home()
	if w.Port != 0 {
		env["PORT"] = strconv.Itoa(w.Port)
	}
	return env
}

func (w workspace) mark() string { return w.Tags.WorkspaceID.String() }

// defaultPath is the usual search path; the server's own may lead to private places, as all of its environment may.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is everything that the workspace's processes get. It is built from nothing: what is in the server's
// environment, such as tokens, stays there. What the template sets goes over parameters, identity and mark over all.
func (w workspace) environment(d dir) map[string]string {
	env := map[string]string{"PATH": defaultPath, "HOME": d.home(), "TMPDIR": d.tmp(), "LANG": "C.UTF-8"}
	if w.UID != 0 {
		env["USER"], env["LOGNAME"] = userName, userName
	}
	maps.Copy(env, provider.Environment(w.Parameters, w.spec.environment, w.identity(d)))
	env[envMark] = w.mark()
	return env
}

// program finds what a command starts, by the PATH of the workspace.
func program(name string, env map[string]string, home string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(home, name)
		}
		return name, nil
	}
	for _, d := range filepath.SplitList(env["PATH"]) {
		path := filepath.Join(d, name)
		info, err := os.Stat(path)
		if filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && syscall.Access(path, 1) == nil {
			return path, nil
		}
	}
	return "", xerrors.Errorf("program %q is not in the workspace's PATH", name)
}
