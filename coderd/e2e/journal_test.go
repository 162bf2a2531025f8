package e2e_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
)

//go:embed testdata/journal.sql
var journalSQL string

// keepJournal makes the database write down every commit from now on; see testdata/journal.sql.
func keepJournal(t testing.TB, store *database.Store) {
	t.Helper()
	_, err := store.Pool.Exec(context.Background(), journalSQL)
	require.NoError(t, err)
}

// commit is one transaction that changed something.
type commit struct {
	seq     int64 // the order in which commits became visible
	xid     uint64
	began   time.Time // the transaction's now()
	frozen  bool      // REPEATABLE READ: it saw one instant throughout
	saw     int       // index of the last commit that it saw, -1 for none; only if frozen
	changes []change
}

// change is one row that a commit made, changed or removed.
type change struct {
	thing   string // the table
	at      time.Time
	was, is *row // nil: not there
}

// row has the columns that matter of any table in the journal.
type row struct {
	ID           uuid.UUID  `json:"id"`
	WorkspaceID  uuid.UUID  `json:"workspace_id"`
	PresetID     uuid.UUID  `json:"preset_id"`
	TemplateID   uuid.UUID  `json:"template_id"`
	PoolKey      uuid.UUID  `json:"pool_key"`
	ClaimID      uuid.UUID  `json:"claim_id"`
	Name         string     `json:"name"`
	Provider     string     `json:"provider"`
	State        string     `json:"state"`
	Kind         string     `json:"kind"`
	Reason       string     `json:"reason"`
	Incarnation  int32      `json:"incarnation"`
	Maximum      int        `json:"maximum"`
	Instances    *int       `json:"instances"`
	TTL          *int       `json:"ttl_s"`
	BootTimeout  int        `json:"boot_timeout_s"`
	ExpiresAt    *time.Time `json:"expires_at"`
	DeadlineAt   *time.Time `json:"deadline_at"`
	DeprecatedAt *time.Time `json:"deprecated_at"`
	DeletedAt    *time.Time `json:"deleted_at"`
}

// readJournal returns all commits in their order, as of one instant.
func readJournal(t testing.TB, store *database.Store) []commit {
	t.Helper()
	ctx := context.Background()
	tx, err := store.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	require.NoError(t, err)
	defer tx.Rollback(ctx)
	rows, err := tx.Query(ctx, `SELECT seq, xid::text, snapshot::text, began_at, frozen
		FROM journal.commits ORDER BY seq`)
	require.NoError(t, err)
	defer rows.Close()
	var commits []commit
	var snapshots []string
	index := map[uint64]int{}
	for rows.Next() {
		var c commit
		var xid, snapshot string
		require.NoError(t, rows.Scan(&c.seq, &xid, &snapshot, &c.began, &c.frozen))
		c.xid = parseXID(t, xid)
		index[c.xid] = len(commits)
		commits, snapshots = append(commits, c), append(snapshots, snapshot)
	}
	require.NoError(t, rows.Err())
	for i := range commits {
		if commits[i].frozen {
			commits[i].saw = lastSeen(t, commits[:i], snapshots[i])
		}
	}

	rows, err = tx.Query(ctx, "SELECT xid::text, at, thing, was, is_ FROM journal.changes ORDER BY id")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var xid string
		var was, is []byte
		var ch change
		require.NoError(t, rows.Scan(&xid, &ch.at, &ch.thing, &was, &is))
		ch.was, ch.is = parseRow(t, was), parseRow(t, is)
		i, known := index[parseXID(t, xid)]
		require.True(t, known, "a change without a commit")
		commits[i].changes = append(commits[i].changes, ch)
	}
	require.NoError(t, rows.Err())
	return commits
}

func parseXID(t testing.TB, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err)
	return n
}

func parseRow(t testing.TB, raw []byte) *row {
	t.Helper()
	if raw == nil {
		return nil
	}
	r := &row{}
	require.NoError(t, json.Unmarshal(raw, r))
	return r
}

// lastSeen is the index of the last of the commits that a snapshot (xmin:xmax:xip,…) saw. It checks what the method
// rests on: a snapshot sees the commits up to one of them, and none after it.
func lastSeen(t testing.TB, before []commit, snapshot string) int {
	t.Helper()
	parts := strings.Split(snapshot, ":")
	require.Len(t, parts, 3, snapshot)
	least, most := parseXID(t, parts[0]), parseXID(t, parts[1])
	var running []uint64
	for _, xid := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' }) {
		running = append(running, parseXID(t, xid))
	}
	sees := func(xid uint64) bool { return xid < least || xid < most && !slices.Contains(running, xid) }
	last := len(before) - 1
	for last >= 0 && !sees(before[last].xid) {
		last--
	}
	for _, c := range before[:last+1] {
		require.True(t, sees(c.xid), "the journal's order is not that of visibility: snapshot %s, commit %d", snapshot, c.xid)
	}
	return last
}
