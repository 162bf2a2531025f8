-- Directories of modules that people upload, as archives under their digests; and which of them a workspace was made with, since
-- destroying needs it too.
--
-- An archive has up to 10 MiB. It is stored out of line without compression, so that it is read and written in one piece. The binary
-- before does not know the table, and refuses the specs that name a digest. It leaves the column as it is: an archive may stay for
-- longer than it is needed.

-- +goose Up
SET LOCAL lock_timeout = '2s';

CREATE TABLE terraform_modules (
  organization_id uuid NOT NULL REFERENCES organizations (id),
  digest          text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'), -- of the archive
  archive         bytea NOT NULL,
  size            integer NOT NULL CHECK (size = octet_length(archive) AND size BETWEEN 1 AND 10485760),
  created_at      timestamptz NOT NULL,
  used_at         timestamptz NOT NULL, -- when it was last uploaded, applied or made a workspace of; nothing is deleted for a day
  PRIMARY KEY (organization_id, digest)
);
ALTER TABLE terraform_modules ALTER COLUMN archive SET STORAGE EXTERNAL;
CREATE INDEX terraform_modules_digest ON terraform_modules (digest); -- a run reads it of whichever organization

-- Of the module that is kept; null: it has its files itself.
ALTER TABLE terraform_runs ADD COLUMN archive text;
CREATE INDEX terraform_runs_archive ON terraform_runs (archive) WHERE archive IS NOT NULL;

-- Which versions name an archive. A module with its files in the spec is no text, and too long for an index.
CREATE INDEX template_versions_archive ON template_versions ((spec ->> 'module')) WHERE spec ->> 'module' LIKE 'sha256:%';
