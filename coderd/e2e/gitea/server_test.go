package gitea_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/programtest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// patience is how long a thing may take that takes seconds on a machine with nothing else to do.
const patience = 90 * time.Second

// forge is a running Gitea with an administrator and a token of his.
type forge struct {
	url   string
	token string
	dir   string
}

func binary(name string) string { return filepath.Join(os.Getenv(folderVariable), name) }

// runnerFor is Gitea's runner where workspaces can start it.
func runnerFor(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(binary("gitea-runner"))
	require.NoError(t, err)
	path := filepath.Join(e2etest.Public(t), "gitea-runner")
	programtest.Write(t, path, content, 0o755)
	return path
}

// startForge starts a Gitea on a database of its own, both of which end with the test.
func startForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{dir: t.TempDir()}
	port := freePort(t)
	f.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	config := filepath.Join(f.dir, "app.ini")
	require.NoError(t, os.WriteFile(config, []byte(configuration(t, f.dir, port)), 0o600))
	server := exec.Command(binary("gitea"), "--config", config, "web")
	run(t, server, filepath.Join(f.dir, "gitea.log"))
	require.Eventually(t, func() bool {
		answer, err := http.Get(f.url + "/api/v1/version")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, patience, 200*time.Millisecond, "Gitea does not answer")

	out, err := exec.Command(binary("gitea"), "--config", config, "admin", "user", "create", "--admin", "--username", "acme",
		"--random-password", "--email", "acme@example.com", "--must-change-password=false",
		"--access-token", "--access-token-name", "prewarm", "--access-token-scopes", "all").CombinedOutput()
	require.NoError(t, err, "%s", out)
	f.token = regexp.MustCompile(`\b[0-9a-f]{40}\b`).FindString(string(out))
	require.NotEmpty(t, f.token, "%s", out)
	return f
}

// configuration is Gitea's: on loopback alone, with Actions, and webhooks allowed to go to this machine.
func configuration(t *testing.T, dir string, port int) string {
	t.Helper()
	address := dbtest.URL(t)
	conn, err := pgx.Connect(context.Background(), address)
	require.NoError(t, err)
	_, err = conn.Exec(context.Background(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	require.NoError(t, err)
	require.NoError(t, conn.Close(context.Background()))
	db, err := url.Parse(address)
	require.NoError(t, err)
	host := db.Host
	if folder := db.Query().Get("host"); folder != "" {
		host = folder
	}
	password, _ := db.User.Password()
	who, err := user.Current()
	require.NoError(t, err)
	return fmt.Sprintf(`
RUN_USER = %s
RUN_MODE = prod
WORK_PATH = %s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %d
ROOT_URL = http://127.0.0.1:%d/
STATIC_ROOT_PATH = %s
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = postgres
HOST = %s
NAME = %s
USER = %s
PASSWD = %s
SSL_MODE = disable
[security]
INSTALL_LOCK = true
SECRET_KEY = %s
[actions]
ENABLED = true
[webhook]
ALLOWED_HOST_LIST = loopback
[repository]
DEFAULT_BRANCH = main
[indexer]
ISSUE_INDEXER_TYPE = db
[log]
LEVEL = Warn
`, who.Username, dir, port, port, binary("gitea-root"), host, strings.TrimPrefix(db.Path, "/"), db.User.Username(), password,
		rand.Text())
}

// run starts a process that ends with the test. What it said is shown where the test failed.
func run(t *testing.T, cmd *exec.Cmd, log string) (ended <-chan struct{}) {
	t.Helper()
	file, err := os.Create(log)
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its steps and git commands end with it
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		_ = file.Close()
		if said, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(log), said[max(0, len(said)-8<<10):])
		}
	})
	return done
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// api asks Gitea, and returns what it answers; an answer that is none of success fails the test.
func (f *forge) api(t *testing.T, method, path string, body any) []byte {
	t.Helper()
	status, answer := f.ask(t, method, path, body)
	require.Less(t, status, 300, "%s %s: %s", method, path, answer)
	return answer
}

func (f *forge) ask(t *testing.T, method, path string, body any) (status int, answer []byte) {
	t.Helper()
	var content bytes.Buffer
	if body != nil {
		require.NoError(t, json.NewEncoder(&content).Encode(body))
	}
	request, err := http.NewRequest(method, f.url+"/api/v1"+path, &content)
	require.NoError(t, err)
	request.Header.Set("Authorization", "token "+f.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, answer
}

// into is api with the answer read.
func into[T any](t *testing.T, f *forge, method, path string, body any) (value T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(f.api(t, method, path, body), &value))
	return value
}

// repository makes one of the administrator's.
func (f *forge) repository(t *testing.T, name string) {
	t.Helper()
	f.api(t, http.MethodPost, "/user/repos", map[string]any{"name": name, "auto_init": true, "default_branch": "main"})
}

// push puts a file into a repository, which is a push as any other.
func (f *forge) push(t *testing.T, repository, path, content string) {
	t.Helper()
	f.api(t, http.MethodPost, "/repos/acme/"+repository+"/contents/"+path, map[string]any{
		"content": []byte(content), "message": "Add " + path, "branch": "main",
	})
}

// job is as Gitea's API has it.
type job struct {
	ID         int64    `json:"id"`
	RunID      int64    `json:"run_id"`
	Name       string   `json:"name"`
	Labels     []string `json:"labels"`
	Status     string   `json:"status"`
	Conclusion string   `json:"conclusion"`
	RunnerName string   `json:"runner_name"`
}

func (f *forge) jobs(t *testing.T, repository string) []job {
	t.Helper()
	return into[struct {
		Jobs []job `json:"jobs"`
	}](t, f, http.MethodGet, "/repos/acme/"+repository+"/actions/jobs", nil).Jobs
}

func (f *forge) job(t *testing.T, repository, name string) job {
	t.Helper()
	for _, j := range f.jobs(t, repository) {
		if j.Name == name {
			return j
		}
	}
	require.FailNow(t, "there is no such job", name)
	return job{}
}

type runner struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Busy   bool   `json:"busy"`
}

func (f *forge) runners(t *testing.T, repository string) []runner {
	t.Helper()
	return into[struct {
		Runners []runner `json:"runners"`
	}](t, f, http.MethodGet, "/repos/acme/"+repository+"/actions/runners", nil).Runners
}
