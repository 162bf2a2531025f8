package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// inhabited is a claimed workspace of a provider, two replicas, and what runs in the workspace.
type inhabited struct {
	store   *database.Store
	servers []*e2etest.Server
	token   string // of who may enter
	name    string
	dir     string                                             // for files; empty: the workspace's own
	say     func(text string) []string                         // a command
	listen  func(t *testing.T, c *sdk.Client, name string) int // a program that echoes; nil: one on this machine, which the workspace shares
}

const vms = `
templates:
  - name: agents
    provider: %s
    boot_timeout: 5m
    agent: {}
    spec: %s
    presets: [{name: default, prebuilds: {instances: 1}}]
`

// replicas starts two on a database, and applies a configuration.
func replicas(t *testing.T, document string, options ...e2etest.Options) inhabited {
	t.Helper()
	url := dbtest.URL(t)
	in := inhabited{store: dbtest.OpenURL(t, url, database.Options{MaxConns: 2}), say: func(text string) []string { return []string{"sh", "-c", "echo " + text} }}
	for len(options) < 2 {
		options = append(options, e2etest.Options{})
	}
	for _, o := range options {
		o.PostgresURL, o.Tick = url, 300*time.Millisecond
		in.servers = append(in.servers, e2etest.Start(t, o))
	}
	c := in.servers[0].Client
	apply(t.Context(), t, c, "%s", document)
	t.Cleanup(func() { // what lives longer than a server must not
		ctx := context.WithoutCancel(t.Context())
		_, _ = c.DeleteWorkspace(ctx, in.name, false)
		_ = c.DeleteTemplate(ctx, "agents")
		eventually(t, "all workspaces to be gone", func() bool {
			var n int
			err := in.store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspaces WHERE state <> 'deleted'").Scan(&n)
			return err == nil && n == 0
		})
	})
	require.Eventually(t, func() bool {
		list, err := c.Workspaces(t.Context(), sdk.WorkspaceFilter{State: "ready"})
		return err == nil && len(list.Workspaces) == 1
	}, 5*time.Minute, 100*time.Millisecond, "a prebuilt workspace")
	claim, err := c.Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	in.name, in.token = claim.Name, c.Token
	return in
}

// A prebuilt workspace of each provider that runs agents, and a runner that has a job: commands, files, ports and SSH get in through
// the tunnel of its agent, at another replica than the one that has it.
func TestEveryProvider(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T) inhabited{
		"local": func(t *testing.T) inhabited {
			return replicas(t, fmt.Sprintf(vms, "local", "{command: [sleep, infinity]}"))
		},
		"docker": func(t *testing.T) inhabited {
			engine := dockertest.Start(t)
			image := engine.Image(t)
			network, gateway := engine.Network(t)
			address := func() string {
				_, port, _ := strings.Cut(freeListen(t), ":")
				return gateway.String() + ":" + port
			}
			first := e2etest.Options{Listen: address()}
			first.Args = []string{"--access-url", "http://" + first.Listen}
			in := replicas(t, fmt.Sprintf("providers: [{name: docker, kind: docker, config: {host: %q, network: %q, callback_host: %q}}]"+vms,
				engine.Host, network, gateway, "docker", fmt.Sprintf("{image: %q, pull: never}", image)),
				first, e2etest.Options{Listen: address(), Args: first.Args})
			in.dir = "/tmp/"
			in.say = func(text string) []string { return []string{"/bin/guest", "say", text} }
			in.listen = func(t *testing.T, c *sdk.Client, name string) int {
				const port = 7777
				_, err := c.StartProcess(t.Context(), name, sdk.ProcessStart{Command: []string{"/bin/guest", "listen", strconv.Itoa(port)}})
				require.NoError(t, err)
				eventually(t, "it to listen", func() bool {
					stream, err := c.DialPort(t.Context(), name, port)
					if err == nil {
						stream.Cut()
					}
					return err == nil
				})
				return port
			}
			return in
		},
		"hosts": func(t *testing.T) inhabited {
			return replicas(t, fleetOf(t, hoststest.Start(t, 1))+fmt.Sprintf(vms, "fleet", `{reset: "true"}`))
		},
		"external": func(t *testing.T) inhabited {
			dir := t.TempDir()
			executable, config, cloud := filepath.Join(dir, "provider"), filepath.Join(dir, "config.json"), filepath.Join(dir, "cloud")
			require.NoError(t, externaltest.Build(executable))
			require.NoError(t, externaltest.Config{Root: cloud, Boots: true}.Write(config))
			t.Cleanup(func() {
				machines, _ := filepath.Glob(filepath.Join(cloud, "machines", "*"))
				for _, home := range machines {
					endSession(home)
				}
			})
			return replicas(t, fmt.Sprintf("providers: [{name: cloud, kind: external, config: {executable: %q, config_file: %q}}]"+vms,
				executable, config, "cloud", "{image: ubuntu, flavor: small}"))
		},
		"a runner": func(t *testing.T) inhabited {
			p := newPlantAt(t, 1, forgetest.Options{Seed: 8}, where{opened, "local", "{command: [sleep, infinity]}", ", enter: [template-admin]"})
			second := p.options
			second.Replica, second.DataDir = "second", t.TempDir()
			second.Args = append(second.Args, "--encryption-keys-file", filepath.Join(p.first.DataDir, "encryption.keys"))
			in := inhabited{store: p.store, servers: []*e2etest.Server{p.first, e2etest.Start(t, second)}}
			t.Cleanup(p.clear) // before these servers stop
			in.say = func(text string) []string { return []string{"sh", "-c", "echo " + text} }
			job := p.queue(1, untilEnded)[0]
			in.name, in.token = p.busy(), user(t, p.first, "admin", "template-admin").Token
			t.Cleanup(func() { p.forge.End(job); p.rests("all as it was"); p.judged(1) })
			return in
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := prepare(t)
			in.enter(t)
		})
	}
}

// elsewhere is a client at a replica that does not have the tunnel.
func (in inhabited) elsewhere(t *testing.T) *sdk.Client {
	t.Helper()
	var holder uuid.UUID
	var replica string
	eventually(t, "a tunnel", func() bool {
		return in.store.Pool.QueryRow(t.Context(), `SELECT r.instance_id, r.name FROM tunnels t JOIN replicas r ON r.instance_id = t.replica_id
			JOIN workspaces w ON w.id = t.workspace_id WHERE w.name = $1 ORDER BY t.connected_at DESC LIMIT 1`, in.name).Scan(&holder, &replica) == nil
	})
	for _, s := range in.servers {
		if s.Replica != replica {
			c, err := sdk.New(s.URL, in.token)
			require.NoError(t, err)
			return c
		}
	}
	require.Fail(t, "both replicas are "+replica)
	return nil
}

func (in inhabited) enter(t *testing.T) {
	t.Helper()
	c := in.elsewhere(t)
	relayed := func() string {
		for line := range strings.Lines(metrics(t, c.URL.String())) {
			if rest, ok := strings.CutPrefix(line, `prewarm_relayed_streams_total{end="to"} `); ok {
				return strings.TrimSpace(rest)
			}
		}
		return ""
	}
	before := relayed()

	var out bytes.Buffer
	code, err := c.Exec(t.Context(), in.name, sdk.ExecRequest{ExecStart: sdk.ExecStart{Command: in.say("well")}, Stdout: &out})
	require.NoError(t, err)
	require.Equal(t, []any{0, "well\n"}, []any{code, out.String()})

	want := make([]byte, 1<<20)
	_, _ = rand.Read(want)
	path := in.dir + "a file"
	_, err = c.WriteFile(t.Context(), in.name, path, bytes.NewReader(want), sdk.FileWrite{Size: int64(len(want))})
	require.NoError(t, err)
	content, _, err := c.ReadFile(t.Context(), in.name, path)
	require.NoError(t, err)
	got, err := io.ReadAll(content)
	require.NoError(t, err)
	require.NoError(t, content.Close())
	require.True(t, bytes.Equal(want, got), "%d of %d bytes", len(got), len(want))

	var port int
	if in.listen == nil {
		port = listening(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	} else {
		port = in.listen(t, c, in.name)
	}
	stream, err := c.DialPort(t.Context(), in.name, port)
	require.NoError(t, err)
	echoed(t, stream)

	raw, err := c.DialSSH(t.Context(), in.name)
	require.NoError(t, err)
	conn, channels, requests, err := ssh.NewClientConn(raw, in.name, &ssh.ClientConfig{User: sdk.SSHUser, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	require.NoError(t, err)
	client := ssh.NewClient(conn, channels, requests)
	defer client.Close()
	forwarded, err := client.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	require.NoError(t, err)
	echoed(t, forwarded)
	if in.listen == nil { // a container's image need not have a shell
		session, err := client.NewSession()
		require.NoError(t, err)
		said, err := session.Output("echo well")
		require.NoError(t, err)
		require.Equal(t, "well\n", string(said))
	}
	require.NotEqual(t, before, relayed(), "it went by the other replica")
}

// echoed sends bytes, and wants them back.
func echoed(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_, err := conn.Write([]byte("well"))
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, "well", string(got))
}
