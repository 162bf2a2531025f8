-- What a claim and a create cost is mostly what they write and check (docs/decisions/0008-foreign-keys-on-the-hot-path.md).
--
-- A foreign key looks up and share-locks the row it names. All claims of a pool name the same preset, and those of a person
-- the same user: claims of two batches share these locks, and each sharing makes a multixact that is written and logged.
-- Passes insert thousands of workspaces that name the same few presets. The rows named here are never deleted (presets,
-- templates and users are only marked), and the statements that write the names read them from the rows themselves:
-- WorkspacesPlanned joins presets and templates, ClaimBatch joins presets, and users come from the token. Tests look for
-- names without a row at the end of every run (dbtest.CheckReferences).
--
-- The binary before works on: it relied on none of them.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TABLE workspaces DROP CONSTRAINT workspaces_preset_id_fkey, DROP CONSTRAINT workspaces_template_version_id_fkey;
ALTER TABLE claims DROP CONSTRAINT claims_preset_id_fkey, DROP CONSTRAINT claims_user_id_fkey;

-- A workspace is written anew at each transition. With room on its page the next version lies beside it, so that a claim
-- touches one page and not two, and writes one to the log in full after a checkpoint.
ALTER TABLE workspaces SET (fillfactor = 75);
