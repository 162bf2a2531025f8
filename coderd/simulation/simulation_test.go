//go:build !race

package simulation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// outcome is what a seed came to.
type outcome struct {
	Seed     uint64
	Steps    int
	Hash     string
	Failure  *violation     `json:",omitempty"`
	Coverage map[string]int `json:",omitempty"`
	Trace    []string       `json:",omitempty"`
	Logs     []string       `json:",omitempty"`
}

// orders are what a simulating process is told.
type orders struct {
	URL   string
	Plans []plan
	Trace bool
}

const ordersEnv = "PREWARM_SIM_ORDERS"

// identities are what every seed finds in the database.
type identities struct{ installation, owner uuid.UUID }

// TestWorker is the simulating process; by itself it does nothing.
func TestWorker(t *testing.T) {
	raw := os.Getenv(ordersEnv)
	if raw == "" {
		return
	}
	var o orders
	require.NoError(t, json.Unmarshal([]byte(raw), &o))
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	pg, err := openPostgres(o.URL)
	require.NoError(t, err)
	ids, err := prepare(t, o.URL)
	require.NoError(t, err)
	for _, p := range o.Plans {
		res := simulate(t, p, pg, ids)
		if !o.Trace {
			res.Trace, res.Logs = nil, nil
		}
		line, err := json.Marshal(res)
		require.NoError(t, err)
		fmt.Printf("\nRESULT %s\n", line)
	}
}

// prepare makes what is the same for all seeds.
func prepare(t *testing.T, url string) (ids identities, err error) {
	ctx := context.Background()
	store := dbtest.OpenURL(t, url, database.Options{MaxConns: 2})
	if ids.installation, err = store.EnsureInstallation(ctx); err != nil {
		return ids, err
	}
	if _, _, err = auth.EnsureOwner(ctx, store, t.TempDir()); err != nil {
		return ids, err
	}
	err = store.Pool.QueryRow(ctx, "SELECT id FROM users WHERE name = 'owner'").Scan(&ids.owner)
	if err != nil {
		return ids, err
	}
	_, err = store.Pool.Exec(ctx, `DO $$ DECLARE t regclass; BEGIN
		FOR t IN SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' LOOP
			EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', t);
		END LOOP; END $$`)
	return ids, err
}

const wipe = `DO $$ DECLARE all_tables text; BEGIN
	SELECT string_agg(c.oid::regclass::text, ', ') INTO all_tables FROM pg_class c
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
	  AND c.relname NOT IN ('organizations', 'users', 'memberships', 'installation', 'tokens', 'goose_db_version');
	EXECUTE 'TRUNCATE ' || all_tables || ' RESTART IDENTITY';
	INSERT INTO reconcile_fence DEFAULT VALUES;
	INSERT INTO providers (name, kind, confirmed_at, updated_at) VALUES ('sim', 'sim', now(), now());
END $$`

// simulate runs one seed in a bubble.
func simulate(t *testing.T, p plan, pg *postgres, ids identities) (res outcome) {
	var err error
	pg.outside(func() { err = pg.admin.QueryRow(context.Background(), "SELECT 1").Scan(new(int)) })
	require.NoError(t, err)
	pg.outside(func() { _, err = pg.admin.Exec(context.Background(), wipe, pgx.QueryExecModeSimpleProtocol) })
	require.NoError(t, err)
	runtime.GC()
	t.Run(fmt.Sprint(p.Seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, p.Seed) // ids and secrets for which the product has no source to be given
		synctest.Test(t, func(*testing.T) {
			w := newWorld(p, pg, ids)
			w.live()
			res = outcome{
				Seed: p.Seed, Steps: w.step, Hash: strconv.FormatUint(w.hash, 16), Failure: w.failure, Coverage: w.coverage,
				Trace: w.trace, Logs: w.logs,
			}
		})
	})
	return res
}

// run simulates in processes of their own, as many as there are processors, and returns the outcomes by plan.
func run(t *testing.T, plans []plan, workers int, trace bool) []outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outcomes := make([]outcome, 0, len(plans))
	var mu sync.Mutex
	var running sync.WaitGroup
	for n := range min(workers, len(plans)) {
		o := orders{URL: dbtest.URL(t), Trace: trace}
		for i := n; i < len(plans); i += workers {
			o.Plans = append(o.Plans, plans[i])
		}
		running.Go(func() {
			got, err := work(ctx, o, func(res outcome) {
				if res.Failure != nil && !trace { // said at once, since the others take a while
					t.Logf("seed %d, step %d: %s: %s", res.Seed, res.Failure.Step, res.Failure.Invariant, res.Failure.Text)
				}
				if res.Failure != nil && os.Getenv("PREWARM_SIM_STOP") != "" {
					cancel() // one is enough
				}
			})
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, got...)
			if err != nil && ctx.Err() == nil {
				t.Errorf("simulating process: %v", err)
			}
		})
	}
	running.Wait()
	return outcomes
}

func work(ctx context.Context, o orders, each func(outcome)) ([]outcome, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestWorker$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), ordersEnv+"="+string(raw), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var got []outcome
	var rest []string
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		line, ok := strings.CutPrefix(lines.Text(), "RESULT ")
		if !ok {
			rest = append(rest, lines.Text())
			continue
		}
		var res outcome
		if err := json.Unmarshal([]byte(line), &res); err != nil {
			return got, err
		}
		got = append(got, res)
		each(res)
	}
	if err := cmd.Wait(); err != nil || len(got) < len(o.Plans) {
		return got, fmt.Errorf("%w, after %d of %d seeds: %s\n%s", err, len(got), len(o.Plans),
			strings.Join(rest, "\n"), stderr.String())
	}
	return got, nil
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
