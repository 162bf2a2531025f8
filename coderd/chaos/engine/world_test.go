package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// The labels that make a container a workspace, as docs/providers/docker.md names them.
const (
	labelInstallation = "dev.prewarm.installation"
	labelWorkspace    = "dev.prewarm.workspace"
	labelIncarnation  = "dev.prewarm.incarnation"
	labelName         = "dev.prewarm.name"
)

// installation is one database, and the servers on it.
type installation struct {
	t       *testing.T
	engine  *dockertest.Engine
	id      uuid.UUID
	url     string
	host    string // by which its servers reach the engine
	every   string // the rate of its inventories
	store   *database.Store
	servers []*e2etest.Server
	options e2etest.Options
}

// newInstallation makes one without servers. Thorough is with the binary that is released.
func newInstallation(t *testing.T, engine *dockertest.Engine, thorough bool) *installation {
	t.Helper()
	in := &installation{t: t, engine: engine, url: dbtest.URL(t), host: engine.Host, every: "1s"}
	in.store = dbtest.OpenURL(t, in.url, database.Options{MaxConns: 3})
	var err error
	in.id, err = in.store.EnsureInstallation(t.Context())
	require.NoError(t, err)
	in.options = e2etest.Options{PostgresURL: in.url, Tick: time.Second}
	if thorough {
		in.every = "10s"
		return in
	}
	in.options.Binary, err = os.Executable()
	require.NoError(t, err)
	in.options.Env = []string{serveVariable + "=1"}
	return in
}

// start starts another server.
func (in *installation) start() *e2etest.Server {
	in.t.Helper()
	s := e2etest.Start(in.t, in.options)
	in.servers = append(in.servers, s)
	return s
}

// client is that of the latest server.
func (in *installation) client() *sdk.Client { return in.servers[len(in.servers)-1].Client }

const document = `
providers:
  - name: docker
    kind: docker
    config: {host: %q, network: none}
    inventory_every: %s
    creates_in_flight: 4
templates:
  - name: guests
    provider: docker
    boot_timeout: 2m
    spec: {image: %q, pull: never, stop_grace: 1s, environment: {VERSION: "%d"}}
    presets:
      - {name: running, prebuilds: {instances: %d}}
      - {name: parked, prebuilds: {instances: %d, standby: stopped}}
`

// pools makes two pools of so many, one of them stopped, in that version. A server whose database is too slow to answer
// says so, and is asked again, as a person would.
func (in *installation) pools(version, running, parked int) {
	in.t.Helper()
	eventually(in.t, "the document is applied", patience, func() string {
		_, err := in.client().Apply(in.t.Context(), sdk.ApplyRequest{Document: fmt.Sprintf(document,
			in.host, in.every, dockertest.GuestImage, version, running, parked)})
		if sdk.StatusOf(err) == http.StatusServiceUnavailable {
			return err.Error()
		}
		require.NoError(in.t, err)
		return ""
	})
}

// asks is what a user wants: one of the pools, one time in three the stopped one.
func asks(r *rand.Rand) sdk.ClaimRequest {
	preset := "running"
	if r.IntN(3) == 0 {
		preset = "parked"
	}
	return sdk.ClaimRequest{Template: "guests", Preset: preset, Mode: "require"}
}

// row is a workspace that is not deleted, or also one that is.
type row struct {
	ID         uuid.UUID
	Name       string
	Preset     string
	State      string
	ProviderID string
}

// rows are all workspaces that there are, and ever were.
func (in *installation) rows() []row {
	in.t.Helper()
	found, err := in.store.Pool.Query(context.Background(), `SELECT w.id, w.name, p.name, w.state::text, w.provider_id
		FROM workspaces w JOIN presets p ON p.id = w.preset_id WHERE w.provider = 'docker' ORDER BY w.id`)
	require.NoError(in.t, err)
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	require.NoError(in.t, err)
	return all
}

// number asks the database for one.
func (in *installation) number(query string, args ...any) (n int) {
	in.t.Helper()
	require.NoError(in.t, in.store.Pool.QueryRow(context.Background(), query, args...).Scan(&n), query)
	return n
}

// containers are the engine's that are tagged as this installation's, which takes three labels.
func (in *installation) containers() ([]container.Summary, error) {
	all, err := in.engine.Client.ContainerList(context.Background(), client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelInstallation+"="+in.id.String()),
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all.Items, func(c container.Summary) bool {
		return c.Labels[labelWorkspace] == "" || c.Labels[labelIncarnation] == ""
	}), nil
}

// unsettled says what is missing until every pool is full, nothing is under way, and the engine has the container of each
// live workspace and nothing else of ours. Removed are containers that somebody removed: a claimed workspace stays without
// one, and so does one in quarantine. What then only looks like it (a stray) stays as long as that workspace does.
func (in *installation) unsettled(removed map[string]bool, strays map[string]string) string {
	in.t.Helper()
	presets, err := in.client().Presets(context.Background())
	require.NoError(in.t, err)
	for _, p := range presets {
		if c := p.Counts; c.Actual != c.Desired || c.Eligible != c.Desired ||
			c.Starting+c.Stopping+c.Deleting+c.Outdated+c.Extraneous+c.Expired+c.Waiting != 0 {
			return fmt.Sprintf("the pool %s is %+v", p.Preset, c)
		}
	}
	there := map[string]container.Summary{}
	containers, err := in.containers()
	if err != nil {
		return err.Error()
	}
	for _, c := range containers {
		there[c.ID] = c
	}
	for _, r := range in.rows() {
		c, has := there[r.ProviderID]
		delete(there, r.ProviderID)
		gone := removed[r.ProviderID] && (r.State == "claimed" || r.State == "quarantined")
		switch {
		case r.State == "deleted" && has:
			return fmt.Sprintf("the engine has container %.12s of %s, which is deleted", c.ID, r.Name)
		case r.State == "deleted":
		case has == gone:
			return fmt.Sprintf("%s is %s; the engine has its container %.12s: %t", r.Name, r.State, r.ProviderID, has)
		case gone:
			for id, look := range there {
				if strays[id] != "" && look.Labels[labelWorkspace] == r.ID.String() {
					delete(there, id)
				}
			}
		case c.Labels[labelWorkspace] != r.ID.String():
			return fmt.Sprintf("%s has the container of another", r.Name)
		case r.State == "ready" && c.State != container.StateRunning, r.State == "standby" && c.State != container.StateExited:
			return fmt.Sprintf("%s is %s, and its container %s", r.Name, r.State, c.State)
		}
	}
	for _, c := range there {
		return fmt.Sprintf("the engine has container %.12s (%s), which is no workspace's", c.ID, strings.Join(c.Names, " "))
	}
	return ""
}

// audit lists the reasons of what was done, oldest first.
func (in *installation) audit(action string) []sdk.AuditEntry {
	in.t.Helper()
	list, err := in.client().Audit(context.Background(), sdk.AuditFilter{Action: action, Limit: 200})
	require.NoError(in.t, err)
	slices.Reverse(list.Entries)
	return list.Entries
}
