-- Which entity's runners may be given a job.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
-- A runner of the entity that has told of the job, or whose repository or organization the job is of. What an enterprise covers
-- no repository's name says: it may be of any entity in the same organization of Prewarm. Go says what the names do:
-- forge.Covers.
CREATE FUNCTION prewarm_may_run(
  entity_id uuid, organization_id uuid, scope forge_scope, path text,
  job_entity_id uuid, job_organization_id uuid, repository text
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT entity_id = job_entity_id OR CASE scope
    WHEN 'repository' THEN lower(path) = lower(repository)
    WHEN 'organization' THEN lower(path) = lower(split_part(repository, '/', 1))
    ELSE organization_id = job_organization_id END
$$;
-- +goose StatementEnd
