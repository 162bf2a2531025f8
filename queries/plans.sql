-- Plans: what the next pass would do, and what people applied a file on the strength of.

-- name: TransactionNow :one
-- The instant that a transaction reads everything at.
SELECT prewarm_transaction_now()::timestamptz AS now;

-- name: PresetsOfOrganization :many
-- All of them, removed ones too: their prebuilds still go.
SELECT id FROM presets WHERE organization_id = @organization_id;

-- name: ProvisionTime :one
-- How long the latest prebuilds of a preset took from the decision to being ready, by those that are there: the median, in
-- seconds, and of how many. Workspaces that were used again say nothing about it.
SELECT coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY x.took_s), 0)::double precision AS median_s,
       count(*)::int AS measured
FROM (
  (SELECT extract(epoch FROM w.ready_at - w.created_at) AS took_s FROM workspaces w
   WHERE w.preset_id = @preset_id AND w.state = 'ready' AND w.incarnation = 1
   ORDER BY w.ready_at DESC LIMIT 50)
  UNION ALL
  (SELECT extract(epoch FROM w.ready_at - w.created_at) FROM workspaces w
   WHERE w.preset_id = @preset_id AND w.state = 'claimed' AND w.incarnation = 1 AND w.ready_at IS NOT NULL LIMIT 50)
) x;

-- name: InsertPlan :one
INSERT INTO plans (id, organization_id, created_by, created_at, expires_at, file, document, basis)
VALUES (@id, @organization_id, @created_by, prewarm_now(),
        prewarm_now() + sqlc.arg(keep_s)::double precision * interval '1 second', @file, sqlc.narg(document), @basis)
RETURNING created_at, expires_at;

-- name: PlanOf :one
SELECT id, file, document, basis, created_at FROM plans
WHERE id = @id AND organization_id = @organization_id AND expires_at > prewarm_now();

-- name: PurgePlans :execrows
-- Those that are over, and of each organization all but the latest, so that nobody fills the database with plans.
DELETE FROM plans p
WHERE p.expires_at <= prewarm_now()
   OR p.id IN (SELECT x.id FROM (SELECT o.id, row_number() OVER (PARTITION BY o.organization_id
                                          ORDER BY o.created_at DESC, o.id) AS place FROM plans o) x
               WHERE x.place > sqlc.arg(most)::int);
