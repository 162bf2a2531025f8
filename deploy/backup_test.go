package deploy_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/embedded"
)

const backupPool = 3

// A database is put back from a backup, and the world has gone on since. What was claimed meanwhile is neither handed
// out again nor deleted, whether the backup knows it or not; what was revoked is not good again; and pools fill anew.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel() // it mostly waits
	ctx := context.Background()
	dump := filepath.Join(t.TempDir(), "backup.dump")
	opts := e2etest.Options{PostgresURL: dbtest.URL(t), DataDir: t.TempDir(), Replica: "replica-1", Tick: time.Second}
	s := &installation{t: t, cloud: t.TempDir(), Server: e2etest.Start(t, opts)}
	_, err := s.Client.Apply(ctx, sdk.ApplyRequest{Document: s.document()})
	require.NoError(t, err)
	s.awaitPool()
	ci, err := s.Client.CreateToken(ctx, sdk.CreateTokenRequest{Name: "ci", User: "ci", Role: "member"})
	require.NoError(t, err)
	old := s.Client.Token
	before := s.claim()
	s.awaitPool()

	backUp(t, opts.PostgresURL, dump)
	known := s.claim() // a prebuild at the time of the backup
	s.awaitPool()
	for range backupPool - 1 { // the oldest go first
		s.claim()
	}
	s.awaitPool()
	unknown := s.claim() // made after the backup
	require.NoError(t, s.Client.RevokeToken(ctx, "ci"))
	require.Zero(t, s.Stop())

	opts.PostgresURL = restore(t, dump)
	_, err = e2etest.TryStart(t, opts)
	require.ErrorContains(t, err, "prewarm admin after-restore", "a server refuses what nobody has seen to")
	out := e2etest.Run(ctx, t, nil, "admin", "after-restore", "--postgres-url", opts.PostgresURL)
	require.Zero(t, out.Status, out.Stderr)
	require.Contains(t, out.Stdout, "quarantined=3 missed=0 tokens=2")

	s.Server = e2etest.Start(t, opts)
	s.awaitPool()
	out = e2etest.Run(ctx, t, nil, "admin", "after-restore", "--postgres-url", opts.PostgresURL)
	require.Equal(t, 1, out.Status, "not while anybody runs on it")
	require.Contains(t, out.Stderr, "stop them all first")
	w, err := s.Client.Workspace(ctx, known.String())
	require.NoError(t, err)
	assert.Equal(t, "quarantined", w.State)
	for range backupPool {
		assert.NotContains(t, []uuid.UUID{before, known, unknown}, s.claim(), "handed out again")
	}
	eventually(t, "what the backup does not know is reported", func() bool {
		lines := s.LogAround("resource of an unknown workspace is left alone")
		return strings.Contains(lines, "workspace_id=")
	})
	assert.Subset(t, s.resources(), []uuid.UUID{before, known, unknown}, "they are somebody's")
	for what, token := range map[string]string{"the one revoked since": ci.Secret, "the owner's": old} {
		client := *s.Client
		client.Token = token
		_, err := client.Presets(ctx)
		assert.Equal(t, http.StatusUnauthorized, sdk.StatusOf(err), "%s: %v", what, err)
	}

	// Somebody looked, and nobody misses it.
	_, err = s.Client.DeleteWorkspace(ctx, known.String(), false)
	require.NoError(t, err)
	eventually(t, "a quarantined workspace can be deleted", func() bool {
		w, err := s.Client.Workspace(ctx, known.String())
		return err == nil && w.State == "deleted"
	})
	assert.NotContains(t, s.resources(), known)

	// It is at home here from now on; and not where it is copied to.
	require.Zero(t, s.Stop())
	s.Server = e2etest.Start(t, opts)
	require.Zero(t, s.Stop())
	backUp(t, opts.PostgresURL, dump)
	opts.PostgresURL = restore(t, dump)
	out = e2etest.Run(ctx, t, nil, "admin", "after-restore", "--nothing-was-lost", "--postgres-url", opts.PostgresURL)
	require.Zero(t, out.Status, out.Stderr)
	require.Contains(t, out.Stdout, "quarantined=0 missed=0 tokens=0")
	s.Server = e2etest.Start(t, opts)
	s.awaitPool()
}

// installation is one server and its cloud.
type installation struct {
	*e2etest.Server
	t     testing.TB
	cloud string
}

func (s *installation) document() string {
	return `
providers:
  - name: cloud
    kind: sim
    config: {root: ` + s.cloud + `}
templates:
  - name: backup
    provider: cloud
    spec: {create_latency: 5ms}
    presets:
      - name: one
        prebuilds: {instances: 3}
`
}

func (s *installation) awaitPool() {
	s.t.Helper()
	eventually(s.t, "the pool is full", func() bool {
		presets, err := s.Client.Presets(context.Background())
		return err == nil && len(presets) == 1 && presets[0].Counts.Eligible == backupPool
	})
}

func (s *installation) claim() uuid.UUID {
	s.t.Helper()
	claim, err := s.Client.Claim(context.Background(),
		sdk.ClaimRequest{Template: "backup", Preset: "one", Mode: "prefer", Wait: "1m"})
	require.NoError(s.t, err)
	require.NotNil(s.t, claim.WorkspaceID, claim.Reason)
	return *claim.WorkspaceID
}

// resources are the workspaces that the cloud has.
func (s *installation) resources() (ids []uuid.UUID) {
	s.t.Helper()
	cloud, err := sim.New(sim.Options{Root: s.cloud})
	require.NoError(s.t, err)
	all, err := cloud.All()
	require.NoError(s.t, err)
	for _, r := range all {
		ids = append(ids, r.Tags.WorkspaceID)
	}
	return ids
}

// backUp is the command of systemd/prewarm-backup.service.
func backUp(t *testing.T, url, file string) {
	t.Helper()
	run(t, "pg_dump", "--format=custom", "--no-owner", "--file="+file, url)
}

// restore puts a dump into a new database and returns its URL.
func restore(t *testing.T, file string) (url string) {
	t.Helper()
	ctx := context.Background()
	url = dbtest.URL(t)
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	require.NoError(t, err)
	run(t, "pg_restore", "--no-owner", "--exit-on-error", "--single-transaction", "--dbname="+url, file)
	return url
}

// run runs one of PostgreSQL's own programs, of the server's version.
func run(t *testing.T, program string, args ...string) {
	t.Helper()
	binaries, err := embedded.FindBinaries(context.Background(), 0)
	require.NoError(t, err)
	path := filepath.Join(binaries.Dir, program)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(program); err != nil {
			t.Skipf("LEFT OUT: this PostgreSQL comes without %s, and so no backup is tried", program)
		}
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", program, out)
}
