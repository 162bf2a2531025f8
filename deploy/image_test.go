package deploy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// The image that image.sh builds, from nothing but the binary, runs as the compose file runs it: as nobody, read-only, without
// capabilities, with the database's URL in a secret. It serves, keeps its data in its volume, and ends in order.
//
// It uses the host's network, where PostgreSQL is; so no bridge is made, and no firewall touched.
func TestImage(t *testing.T) {
	t.Parallel()
	engine := startEngine(t)
	engine.build(t, "prewarm:test")
	assert.Equal(t, "65532:65532\n", engine.docker(t, "inspect", "--format", "{{.Config.User}}", "prewarm:test"), "it runs as nobody")
	engine.build(t, "prewarm:arm64", "PLATFORM=linux/arm64")
	assert.Equal(t, "arm64\n", engine.docker(t, "inspect", "--format", "{{.Architecture}}", "prewarm:arm64"))

	root := t.TempDir()
	secret, address := filepath.Join(root, "postgres-url"), freeAddress(t)
	require.NoError(t, os.WriteFile(secret, []byte(overTCP(t, dbtest.URL(t), "127.0.0.1")), 0o644))
	args := []string{
		"run", "--detach", "--network=host", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
		"--volume=" + secret + ":/run/secrets/postgres-url:ro", "--volume=data:/data", "--env=PREWARM_REPLICA=replica-1",
		"--env=PREWARM_DRAIN=0s", "--env=PREWARM_LISTEN=" + address, "prewarm:test",
		"server", "--postgres-url-file", "/run/secrets/postgres-url",
	}
	for _, life := range []string{"first", "second"} { // the second finds what the first left in the volume
		id := strings.TrimSpace(engine.docker(t, args...))
		eventually(t, "the server in the "+life+" container is ready", func() bool {
			res, err := http.Get("http://" + address + "/readyz")
			if err != nil {
				return !engine.running(id)
			}
			defer res.Body.Close()
			return res.StatusCode == http.StatusOK
		})
		require.True(t, engine.running(id), "it ended: %s", engine.docker(t, "logs", id))
		assert.Contains(t, engine.docker(t, "exec", id, "/prewarm", "version"), "prewarm")
		engine.docker(t, "stop", "--time", "60", id)
		assert.Equal(t, "0\n", engine.docker(t, "inspect", "--format", "{{.State.ExitCode}}", id), "an orderly stop (G6): %s",
			engine.docker(t, "logs", id))
	}
}

// build runs image.sh in a tree that has what it wants.
func (e *dockerEngine) build(t testing.TB, image string, env ...string) {
	t.Helper()
	root := t.TempDir()
	certificates := filepath.Join(root, "authorities.crt")
	require.NoError(t, os.WriteFile(certificates, []byte("# none: nothing is asked by TLS here\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "bin"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "deploy"), 0o755))
	for _, file := range []string{"image.sh", "Dockerfile"} {
		copyFile(t, file, filepath.Join(root, "deploy", file), 0o755)
	}
	copyFile(t, e2etest.Binary(t), filepath.Join(root, "bin/prewarm"), 0o755) // static: nothing else is in the image
	cmd := exec.Command(filepath.Join(root, "deploy/image.sh"))
	cmd.Env = append(append(e.env(), "CERTIFICATES="+certificates, "IMAGE="+image, "DOCKER_BUILDKIT=0"), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// dockerEngine is driven by the command that people drive one by.
type dockerEngine struct{ *dockertest.Engine }

func startEngine(t testing.TB) *dockerEngine {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		missing(t, "the docker command to build and run the image with: scripts/docker.sh installs it")
	}
	return &dockerEngine{dockertest.Start(t)}
}

func (e *dockerEngine) env() []string {
	return append(os.Environ(), "DOCKER_HOST="+e.Host, "HOME="+e.Dir)
}

func (e *dockerEngine) running(id string) bool {
	cmd := exec.Command("docker", "inspect", "--format", "{{.State.Running}}", id)
	cmd.Env = e.env()
	out, err := cmd.Output()
	return err != nil || string(out) == "true\n"
}

// docker runs the command with these arguments, and returns what it wrote.
func (e *dockerEngine) docker(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Env = e.env()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "docker %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// overTCP is a database's URL as a container can use it, which does not get at the folder of a socket here. It listens at a
// free port of the host.
func overTCP(t testing.TB, database, host string) string {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	network, address := "tcp", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if filepath.IsAbs(config.Host) {
		network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password),
		Host: forward(t, host, func() (net.Conn, error) { return net.Dial(network, address) }),
		Path: "/" + config.Database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// forward hands on each connection to a free port of the host, and returns its address.
func forward(t testing.TB, host string, dial func() (net.Conn, error)) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				behind, err := dial()
				if err != nil {
					return
				}
				defer behind.Close()
				go func() { _, _ = io.Copy(behind, conn); _ = behind.Close() }()
				_, _ = io.Copy(conn, behind)
			}()
		}
	}()
	return listener.Addr().String()
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, mode))
}
