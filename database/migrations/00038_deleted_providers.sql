-- Providers can be deleted, and workspaces say which system their provider gave them.
--
-- A deleted provider makes nothing new and works for what is left there; once nothing is left, nobody lists, counts or
-- inventories it any more. Its row stays: versions and workspaces of the past refer to it.
--
-- The binary before knows none of this and runs on: to it the provider is as it was. For a template that still uses it, which
-- only a deletion by force leaves, its passes may plan and its workers may make workspaces there; passes of this binary let
-- these go. It lists and inventories what is empty too, which finds nothing. A file that it applies does not take a deletion
-- back (docs/decisions/0026-deleted-providers-keep-their-row.md).

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TABLE providers
  ADD COLUMN deleted_at    timestamptz,                    -- since when it makes nothing new; null: it is in use
  ADD COLUMN delete_forced boolean NOT NULL DEFAULT false, -- what is left there is given up where the provider does not delete it
  ADD COLUMN emptied_at    timestamptz,                    -- since when nothing is left there
  ADD CHECK (deleted_at IS NOT NULL OR NOT delete_forced AND emptied_at IS NULL);

-- When the last inventory that found nothing began: neither a workspace nor a resource, but for those of other providers that
-- look at the same place. It is the word of the last complete one where it is complete_at.
ALTER TABLE inventories ADD COLUMN empty_at timestamptz;

-- As in migration 00027, but that a pool on a deleted provider should have none.
CREATE OR REPLACE VIEW desired_prebuilds AS
SELECT p.id AS preset_id,
       (CASE WHEN t.deprecated_at IS NOT NULL OR t.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL
               OR pr.deleted_at IS NOT NULL THEN 0
             WHEN p.schedule IS NOT NULL OR p.all_machines THEN coalesce((s.counts ->> 'desired')::int, p.instances, 0)
             WHEN p.instances IS NULL THEN 0
             WHEN z.size IS NOT NULL
               THEN least(greatest(z.size, (p.autosize ->> 'min')::int), (p.autosize ->> 'max')::int)
             ELSE p.instances END)::int AS desired,
       (p.all_machines AND t.deprecated_at IS NULL AND t.deleted_at IS NULL AND p.deleted_at IS NULL
         AND pr.deleted_at IS NULL
         AND (p.schedule IS NULL OR s.ledger #>> '{creates,0,rule}' IS DISTINCT FROM 'C9'))::boolean AS takes_all
FROM presets p
JOIN templates t ON t.id = p.template_id
JOIN providers pr ON pr.name = t.provider
LEFT JOIN preset_status s ON s.preset_id = p.id
LEFT JOIN preset_sizes z ON z.preset_id = p.id AND p.autosize ->> 'mode' = 'apply'
  AND z.computed_at > prewarm_now() - interval '15 minutes';

-- The system that a workspace has, as its provider says; empty: it did not.
ALTER TABLE workspaces
  ADD COLUMN os_name    text NOT NULL DEFAULT '',
  ADD COLUMN os_version text NOT NULL DEFAULT '';
