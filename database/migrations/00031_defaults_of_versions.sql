-- Which defaults of its provider hold where the spec of a version says nothing: 0 are those of 0.1, which versions that exist
-- keep, and which the release before goes on giving to those that it writes.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE template_versions ADD COLUMN defaults smallint NOT NULL DEFAULT 0;
