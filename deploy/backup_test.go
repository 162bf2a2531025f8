package deploy_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

	dump := backUp(t, opts.PostgresURL)
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
	opts.PostgresURL = restore(t, backUp(t, opts.PostgresURL))
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

// backupCommand is what systemd/prewarm-backup.service has a shell do. Of what systemd reads otherwise than a shell, it
// has no more than the doubled percent signs.
var backupCommand = regexp.MustCompile(`(?m)^ExecStart=/bin/sh -euc '((?:[^'\\%$\n]|%%|\$[^{$])+)'$`)

// backUp runs that very command, with a folder of its own in the place of the unit's, and returns the dump. It sees to
// it that nothing but whole dumps of the last two weeks is left there, and that others cannot read the new one.
func backUp(t *testing.T, url string) (dump string) {
	t.Helper()
	unit, err := os.ReadFile("systemd/prewarm-backup.service")
	require.NoError(t, err)
	found := backupCommand.FindSubmatch(unit)
	require.NotNil(t, found, "the unit's command is another than this test can run")
	command := strings.ReplaceAll(string(found[1]), "%%", "%")
	const folder = "/var/backups/prewarm"
	require.Contains(t, command, folder)
	require.Contains(t, string(unit), "\nReadWritePaths="+folder+"\n")
	require.Contains(t, string(unit), "\nLoadCredential=postgres-url:")

	to, credentials := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(credentials, "postgres-url"), []byte(url+"\n"), 0o600))
	for name, days := range map[string]int{"old.dump": 16, "recent.dump": 13} {
		require.NoError(t, os.WriteFile(filepath.Join(to, name), nil, 0o600))
		at := time.Now().AddDate(0, 0, -days)
		require.NoError(t, os.Chtimes(filepath.Join(to, name), at, at))
	}
	cmd := exec.Command("/bin/sh", "-euc", strings.ReplaceAll(command, folder, to))
	cmd.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+credentials,
		"PATH="+filepath.Dir(program(t, "pg_dump"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	entries, err := os.ReadDir(to)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Len(t, names, 2, "%v", names)
	require.Regexp(t, `^\d{8}T\d{6}Z\.dump$`, names[0])
	require.Equal(t, "recent.dump", names[1])
	info, err := entries[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "only its owner reads a backup")
	return filepath.Join(to, names[0])
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
	out, err := exec.Command(program(t, "pg_restore"), "--no-owner", "--exit-on-error", "--single-transaction",
		"--dbname="+url, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return url
}

// program is the path of one of PostgreSQL's own programs, of the server's version where it is there.
func program(t *testing.T, name string) string {
	t.Helper()
	binaries, err := embedded.FindBinaries(context.Background(), 0)
	require.NoError(t, err)
	path := filepath.Join(binaries.Dir, name)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(name); err != nil {
			missing(t, "this PostgreSQL comes without "+name+" to try a backup with (apt-get install postgresql-client, "+
				"dnf install postgresql, brew install postgresql)")
		}
	}
	return path
}
