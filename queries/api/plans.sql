-- Plans that people applied a file on the strength of.

-- name: InsertPlan :one
INSERT INTO plans (id, organization_id, created_by, created_at, expires_at, file, document, basis)
VALUES (@id, @organization_id, @created_by, prewarm_now(),
        prewarm_now() + sqlc.arg(keep_s)::double precision * interval '1 second', @file, sqlc.narg(document), @basis)
RETURNING created_at, expires_at;

-- name: PlanOf :one
SELECT id, file, document, basis, created_at FROM plans
WHERE id = @id AND organization_id = @organization_id AND expires_at > prewarm_now();
