package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// fill makes what it would take days to come to, in the database of a server that runs: claims of days gone by, and
// workspaces in the pools that there are, each with its history. The pages of the web UI are measured and pictured so.
// What it fills should be paused meanwhile, or passes see half of it. The provider of the workspaces is `sim`, whose files
// are in the directory cloud.
func fill(ctx context.Context, address, cloud string, workspaces, days int) {
	store := get(database.Open(ctx, address, database.Options{Replica: "fill"}))
	defer store.Close()
	f := &fleet{provider: "sim", store: store, url: address, cloud: cloud}
	f.find(ctx)
	f.lived(ctx, days)
	if workspaces == 0 {
		return
	}
	// Half is ready, half in use.
	f.add(ctx, workspaces/2)
	f.addClaimed(ctx, workspaces-workspaces/2)
	f.remember(ctx)
	fmt.Fprintf(os.Stderr, "# %d workspaces in %d pools\n", workspaces, len(f.pools))
	f.settle(ctx)
}

// find reads which pools there are.
func (f *fleet) find(ctx context.Context) {
	rows := get(f.store.Pool.Query(ctx, `SELECT t.name || '/' || p.name, t.id, t.active_version_id, p.id, p.pool_key
		FROM presets p JOIN templates t ON t.id = p.template_id
		WHERE p.organization_id = $1 AND p.deleted_at IS NULL AND p.instances IS NOT NULL ORDER BY 1`,
		auth.DefaultOrganizationID))
	f.pools = get(pgx.CollectRows(rows, func(row pgx.CollectableRow) (p pool, err error) {
		return p, row.Scan(&p.name, &p.template, &p.version, &p.preset, &p.key)
	}))
	if len(f.pools) == 0 {
		fail("fill: there is no pool; apply some first")
	}
	must(f.store.Pool.QueryRow(ctx, "SELECT u.id, i.id FROM users u, installation i WHERE u.name = 'owner'").
		Scan(&f.owner, &f.installation))
}

// build makes the resources of workspaces, so that inventories find them.
func (f *fleet) build(ids []uuid.UUID, names []string) {
	if f.cloud == "" {
		return
	}
	directory := filepath.Join(f.cloud, "resources")
	must(os.MkdirAll(directory, 0o700))
	for i, name := range names {
		content := get(json.Marshal(sim.Resource{
			ProviderID: "sim-" + name, Name: name, CreatedAt: epoch, ReadyAt: epoch,
			Tags: provider.Tags{Installation: f.installation, WorkspaceID: ids[i], Incarnation: 1},
		}))
		must(os.WriteFile(filepath.Join(directory, name+".json"), content, 0o600))
	}
}

// lived writes the claims of so many days: busy by day and quiet at night, each pool after its own fashion, with some
// that waited where it was busiest. The same pools have the same past each time.
func (f *fleet) lived(ctx context.Context, days int) {
	const every = 5 * time.Minute
	for _, p := range f.pools {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(p.name))
		chance := rand.New(rand.NewPCG(sum.Sum64(), 1))
		busy, offset := 0.8+2*chance.Float64(), 2*chance.Float64()
		var ago []float64
		var outcomes []string
		for age := every; age < time.Duration(days)*24*time.Hour; age += every {
			at := time.Now().Add(-age)
			hour := float64(at.Hour()) + float64(at.Minute())/60 + offset
			rate := busy * math.Pow(math.Max(0.02, math.Sin((hour-6)/24*2*math.Pi)), 1.5)
			for range int(rate*chance.Float64() + chance.Float64()) {
				outcome := "hit"
				if rate > 0.9*busy && chance.Float64() < 0.08 {
					outcome = "waited"
				}
				ago = append(ago, age.Seconds()+every.Seconds()*chance.Float64())
				outcomes = append(outcomes, outcome)
			}
		}
		f.pastOf(ctx, p, days, ago, outcomes)
	}
}

// pastOf makes a pool as old as that, with claims so many seconds ago, which are over, and what is counted of them.
func (f *fleet) pastOf(ctx context.Context, p pool, days int, ago []float64, outcomes []string) {
	batch := &pgx.Batch{}
	batch.Queue("UPDATE presets SET created_at = now() - make_interval(days => $2) WHERE id = $1", p.preset, days)
	batch.Queue(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation,
			created_at, bound_at, released_at)
		SELECT gen_random_uuid(), $1, $2, $3, 'prefer', 'released', u.outcome::claim_outcome, gen_random_uuid(), 1,
		       a.at, a.at, least(a.at + interval '40 minutes', now())
		FROM unnest($4::float8[], $5::text[]) AS u (ago, outcome), LATERAL (SELECT now() - make_interval(secs => u.ago) AS at) a`,
		auth.DefaultOrganizationID, p.preset, f.owner, ago, outcomes)
	batch.Queue(`INSERT INTO claim_history (preset_id, bucket, claims, hits, provisions, provision_s)
		SELECT preset_id, date_bin('5 minutes', created_at, 'epoch'), count(*), count(*) FILTER (WHERE outcome = 'hit'),
		       count(*), count(*) * (24 + abs(hashtext(min(created_at)::text)) % 16)
		FROM claims WHERE preset_id = $1 GROUP BY 1, 2 ON CONFLICT DO NOTHING`, p.preset)
	// What was claimed lately is being built again, and what was claimed before is in use.
	batch.Queue(`INSERT INTO preset_samples (preset_id, bucket, desired, ready, starting, claimed)
		SELECT p.id, b, p.instances, greatest(p.instances - c.lately, 0), least(c.lately, p.instances), c.held
		FROM presets p, generate_series(date_bin('5 minutes', now() - make_interval(days => $2), 'epoch'),
		                                now() - interval '10 minutes', '5 minutes') b,
		     LATERAL (SELECT count(*) AS held, count(*) FILTER (WHERE x.created_at > b - interval '5 minutes') AS lately
		              FROM claims x WHERE x.preset_id = p.id AND x.created_at BETWEEN b - interval '40 minutes' AND b) c
		WHERE p.id = $1 ON CONFLICT DO NOTHING`, p.preset, days)
	must(f.store.Pool.SendBatch(ctx, batch).Close())
}

// remember writes how each of the workspaces came to be what it is.
func (f *fleet) remember(ctx context.Context) {
	get(f.store.Pool.Exec(ctx, `INSERT INTO workspace_history
			(workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
		SELECT w.id, 1, s.was::workspace_state, s.became::workspace_state, w.created_at + s.later,
		       CASE WHEN s.became = 'claimed' THEN w.owner_id ELSE $1::uuid END, s.reason
		FROM workspaces w, (VALUES (1, NULL, 'provisioning', interval '0', 'below desired'),
		       (2, 'provisioning', 'starting', interval '21 seconds', 'created'),
		       (3, 'starting', 'ready', interval '34 seconds', 'ready'),
		       (4, 'ready', 'claimed', interval '1 hour', 'claimed')) AS s (n, was, became, later, reason)
		WHERE w.provider_id LIKE 'sim-%' AND (s.became <> 'claimed' OR w.state = 'claimed')
		  AND NOT EXISTS (SELECT FROM workspace_history h WHERE h.workspace_id = w.id)
		ORDER BY w.created_at, s.n`, auth.BuiltinUserID))
}
