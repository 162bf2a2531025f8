-- Which entity's runners a job may be given, by the repository that it is of.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
-- A job that came by the entity itself is the caller's to tell; so is all of an enterprise, which no repository's name tells.
-- Go says the same: forge.Covers.
CREATE FUNCTION prewarm_forge_covers(scope forge_scope, path text, repository text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE scope
    WHEN 'repository' THEN lower(path) = lower(repository)
    WHEN 'organization' THEN lower(path) = lower(split_part(repository, '/', 1))
    ELSE false END
$$;
-- +goose StatementEnd
