package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database"
)

// fillForge makes three forges, and jobs of the first: some that nothing can serve, some that wait, some that run on the ready
// prebuilds of the pools named, which become runners by it, and some hundred that ended. Nobody is at the forges' addresses. They
// are due to be asked tomorrow, so that what a page shows does not hang on how long ago they were made.
func fillForge(ctx context.Context, address string, pools []string) {
	store := get(database.Open(ctx, address, database.Options{Replica: "fill"}))
	defer store.Close()
	must(pgx.BeginFunc(ctx, store.Pool, func(tx pgx.Tx) error {
		f := &forgeFill{tx: tx, chance: rand.New(rand.NewPCG(1, 2)), now: time.Now().UTC()}
		f.entities(ctx)
		f.runners(ctx, pools)
		f.jobs(ctx)
		fmt.Fprintf(os.Stderr, "# %d runners, %d jobs\n", len(f.made), f.serial)
		return nil
	}))
}

type forgeFill struct {
	tx     pgx.Tx
	chance *rand.Rand
	now    time.Time
	entity uuid.UUID
	made   []madeRunner
	serial int64
}

type madeRunner struct {
	workspace, preset uuid.UUID
	name              string
	labels            []string
}

const forgeURL = "https://github.example.com/api/v3"

func (f *forgeFill) entities(ctx context.Context) {
	for _, e := range []struct{ name, kind, url, scope, path, stopped, failed string }{
		{"acme", "github", forgeURL, "organization", "acme", "", ""},
		{"legacy", "gitea", "https://gitea.example.com", "repository", "acme/legacy", "moved to acme", ""},
		{"partner", "github", "https://ghe.example.net/api/v3", "repository", "partner/site", "", "502 Bad Gateway: upstream is away"},
	} {
		credential, entity := uuid.New(), uuid.New()
		var stopped, failed *time.Time
		at := f.now.Add(-40 * time.Minute)
		if e.stopped != "" {
			stopped = &at
		}
		if e.failed != "" {
			failed = &at
		}
		if e.name == "acme" {
			f.entity = entity
		}
		get(f.tx.Exec(ctx, `WITH c AS (
				INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
				VALUES ($1, $2, $3, $4::text::forge_kind, $5, 'token', '', 'none', now(), now())
			), e AS (
				INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by, hook_id,
					stopped_at, stopped_reason, created_at, updated_at)
				VALUES ($6, $2, $3, $7::text::forge_scope, $8, $1, '', 'none', nullif($3 = 'acme', false)::int, $9, $10, now(), now())
			)
			INSERT INTO forge_status (entity_id, asked_at, succeeded_at, error, error_at, wait_until, rate_limit, rate_remaining, rate_reset_at)
			VALUES ($6, now() + interval '1 day', now(), $11, $12::timestamptz, $12::timestamptz + interval '1 day',
				CASE $4::text WHEN 'github' THEN 5000 ELSE 0 END, CASE $4::text WHEN 'github' THEN 4210 ELSE 0 END, now() + interval '23 min')`,
			credential, auth.DefaultOrganizationID, e.name, e.kind, e.url, entity, e.scope, e.path, stopped, e.stopped, e.failed, failed))
	}
}

// runners makes the ready prebuilds of pools runners: what they have in their names is what they are labelled with.
func (f *forgeFill) runners(ctx context.Context, pools []string) {
	for _, pool := range pools {
		template, preset, _ := strings.Cut(pool, "/")
		labels := forge.Labels(append([]string{"self-hosted"}, strings.Split(preset, "-")...))
		get(f.tx.Exec(ctx, `UPDATE presets SET forge_entity_id = $1, runner_labels = $2, runner_maximum = 40
			FROM templates t WHERE t.id = presets.template_id AND t.name = $3 AND presets.name = $4`, f.entity, labels, template, preset))
		rows := get(f.tx.Query(ctx, `INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, runner_id, status, status_since,
				status_at, handed_out_at, registered_at, created_at)
			SELECT w.id, w.incarnation, w.preset_id, $1, w.name, row_number() OVER (ORDER BY w.name) + 7000, 'idle', w.created_at, now(),
				w.created_at, w.created_at, w.created_at
			FROM workspaces w JOIN presets p ON p.id = w.preset_id JOIN templates t ON t.id = p.template_id
			WHERE t.name = $2 AND p.name = $3 AND w.state = 'ready'
			RETURNING workspace_id, preset_id, name`, f.entity, template, preset))
		made := get(pgx.CollectRows(rows, func(row pgx.CollectableRow) (madeRunner, error) {
			r := madeRunner{labels: labels}
			return r, row.Scan(&r.workspace, &r.preset, &r.name)
		}))
		f.made = append(f.made, made...)
	}
	if len(f.made) == 0 {
		fail("none of %v has a ready prebuild", pools)
	}
}

func (f *forgeFill) jobs(ctx context.Context) {
	for i, labels := range [][]string{{"gpu", "self-hosted"}, {"macos-15"}, {"gpu", "self-hosted"}} {
		why := fmt.Sprintf("no runner preset has the labels %v: %s is offered by none", labels, labels[0])
		f.job(ctx, filled{state: "queued", labels: labels, unserved: why, queued: f.ago(20+30*i, 10)})
	}
	for i := range 5 {
		r := f.made[i%len(f.made)]
		f.job(ctx, filled{state: "queued", labels: r.labels, preset: &r.preset, queued: f.ago(i, 3)})
	}
	for _, r := range f.made[:(len(f.made)+1)/2] {
		queued := f.ago(90, 240)
		started := queued.Add(time.Duration(f.chance.IntN(3000)) * time.Millisecond)
		f.job(ctx, filled{state: "in_progress", labels: r.labels, runner: &r, queued: queued, started: &started})
		get(f.tx.Exec(ctx, "UPDATE forge_runners SET status = 'active' WHERE workspace_id = $1", r.workspace))
	}
	for i := range 130 {
		queued := f.ago(600+i*500, 400)
		started := queued.Add(time.Duration(200+f.chance.IntN(5000)) * time.Millisecond)
		completed := started.Add(time.Duration(30+f.chance.IntN(500)) * time.Second)
		conclusion := "success"
		if i%9 == 4 {
			conclusion = []string{"failure", "cancelled"}[i%2]
		}
		f.job(ctx, filled{
			state: "completed", labels: f.made[0].labels, queued: queued, started: &started, completed: &completed, conclusion: conclusion,
		})
	}
}

// ago is some seconds ago, with up to so many more.
func (f *forgeFill) ago(seconds, more int) time.Time {
	return f.now.Add(-time.Duration(seconds+f.chance.IntN(more)) * time.Second)
}

// filled is a job to insert.
type filled struct {
	state, unserved, conclusion string
	labels                      []string
	preset                      *uuid.UUID
	runner                      *madeRunner
	queued                      time.Time
	started, completed          *time.Time
}

func (f *forgeFill) job(ctx context.Context, j filled) {
	f.serial++
	repository := []string{"acme/shop", "acme/payments", "acme/search"}[f.serial%3]
	name := []string{"build", "unit tests", "browser tests", "lint"}[f.serial%4]
	var workspace *uuid.UUID
	var incarnation *int
	runner := ""
	if j.runner != nil {
		one := 1
		workspace, incarnation, runner = &j.runner.workspace, &one, j.runner.name
	} else if j.started != nil {
		runner = fmt.Sprintf("prebuild-of-the-day-before-%d", f.serial)
	}
	get(f.tx.Exec(ctx, `INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, run_id, workflow,
			name, url, labels, state, conclusion, runner_name, workspace_id, incarnation, preset_id, unserved, queued_at, started_at,
			completed_at, seen_at, updated_at)
		VALUES ($1, $2, $3, $4::bigint, 1, $5, $6::text, $4::bigint / 4, 'CI', $7,
			'https://github.example.com/' || $6::text || '/actions/runs/' || ($4::bigint / 4)::text || '/job/' || ($4::bigint)::text,
			$8, $9::text::forge_job_state, $10, $11, $12, $13, $14, $15, $16, $17, $18, now(), clock_timestamp())`,
		uuid.New(), auth.DefaultOrganizationID, forgeURL, 41_000+f.serial, f.entity, repository, name, j.labels, j.state, j.conclusion,
		runner, workspace, incarnation, j.preset, j.unserved, j.queued, j.started, j.completed))
}
