-- What providers have, held against what the database says: inventories, what they found, and the breaker that stops
-- creates and deletes at a provider whose word cannot be taken.
--
-- The binary before knows none of this and runs on: it sweeps orphans as it did, and leases also where a breaker is open.
-- Providers that it adds are not confirmed.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TABLE providers
  ADD COLUMN create_every_s    double precision CHECK (create_every_s > 0), -- S5: the rate of creates; null: no limit
  ADD COLUMN create_burst      integer NOT NULL DEFAULT 1 CHECK (create_burst > 0),
  ADD COLUMN inventory_every_s double precision NOT NULL DEFAULT 60 CHECK (inventory_every_s > 0),
  -- The breaker opens at so many new discrepancies that are also so many per cent of all, or at so many per cent of calls
  -- that fail; it closes after so many clean inventories.
  ADD COLUMN breaker_count     integer NOT NULL DEFAULT 10 CHECK (breaker_count > 0),
  ADD COLUMN breaker_percent   integer NOT NULL DEFAULT 25 CHECK (breaker_percent BETWEEN 1 AND 100),
  ADD COLUMN breaker_errors    integer NOT NULL DEFAULT 50 CHECK (breaker_errors BETWEEN 1 AND 100),
  ADD COLUMN breaker_clean     integer NOT NULL DEFAULT 3 CHECK (breaker_clean > 0),
  -- Since when orphans may be deleted there; null: what would be deleted is only shown.
  ADD COLUMN confirmed_at      timestamptz;
UPDATE providers SET confirmed_at = prewarm_now(); -- they were swept before

-- One row for each provider, and each site of one that has sites: the lease of its inventory, how the last one ended, and
-- the breaker. `attempt` is the fencing token of the lease. Passes read this and never write it.
CREATE TABLE inventories (
  provider      text NOT NULL,
  site          text NOT NULL DEFAULT '',
  attempt       bigint NOT NULL DEFAULT 0,
  leased_by     text NOT NULL DEFAULT '',
  leased_until  timestamptz NOT NULL,
  due_at        timestamptz NOT NULL,
  full_at       timestamptz NOT NULL, -- when the rate of inventories allows its whole burst again
  outcome       text NOT NULL DEFAULT '' CHECK (outcome IN ('', 'complete', 'incomplete')),
  error         text NOT NULL DEFAULT '',
  ended_at      timestamptz,          -- of the last one
  complete_at   timestamptz,          -- when the last complete one began: what it says is of then
  took_s        double precision NOT NULL DEFAULT 0,
  resources     integer NOT NULL DEFAULT 0,
  workspaces    integer NOT NULL DEFAULT 0,
  discrepancies integer NOT NULL DEFAULT 0,
  opened_at     timestamptz,          -- of the breaker; null: closed
  reason        text NOT NULL DEFAULT '',
  clean         integer NOT NULL DEFAULT 0,
  changed_at    timestamptz,          -- when the breaker last opened or closed
  PRIMARY KEY (provider, site),
  CHECK ((opened_at IS NOT NULL) = (reason <> ''))
);

-- What the last complete inventory found amiss, since when, and in how many inventories in a row. Something is done about
-- what two of them agree on, by whichever replica makes the second.
CREATE TABLE inventory_findings (
  provider     text NOT NULL,
  site         text NOT NULL,
  subject      text NOT NULL, -- the workspace's id, and for a resource its own
  verdict      text NOT NULL,
  workspace_id uuid NOT NULL,
  resource     text NOT NULL, -- its name; empty: there is none
  provider_id  text NOT NULL,
  detail       text NOT NULL,
  first_at     timestamptz NOT NULL,
  seen         integer NOT NULL DEFAULT 1,
  told_at      timestamptz,   -- of what people are told about once
  PRIMARY KEY (provider, site, subject, verdict)
);

-- How often providers were called and failed, by the minute; what breakers go by.
CREATE TABLE provider_calls (
  provider text NOT NULL,
  site     text NOT NULL,
  minute   timestamptz NOT NULL,
  calls    integer NOT NULL,
  errors   integer NOT NULL,
  PRIMARY KEY (provider, site, minute)
);

-- When each provider's rate of creates allows its whole burst again. Written by passes only, under the fence.
CREATE TABLE create_rates (
  provider text PRIMARY KEY REFERENCES providers (name),
  full_at  timestamptz NOT NULL
);

-- The times in which replicas were at work on this very database, without a gap. A resource that was made in one of them
-- and that no row knows is an orphan. One that was made in none may be somebody's: of a history that was lost with a
-- backup that was put back.
CREATE TABLE times_at_work (
  began_at timestamptz PRIMARY KEY,
  seen_at  timestamptz NOT NULL CHECK (seen_at >= began_at)
);
