-- What a plan reads beside the snapshot of a pass.

-- name: PresetsOfOrganization :many
-- All of them, removed ones too: their prebuilds still go.
SELECT id FROM presets WHERE organization_id = @organization_id;
