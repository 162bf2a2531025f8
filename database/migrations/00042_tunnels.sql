-- Tunnels of agents: which replica holds which.
--
-- An agent dials out to one replica, and a request for its workspace may come to any. A row is written once when a tunnel is
-- made and removed when it ends; heartbeats leave it alone. The table is logged although its rows could be made again: a
-- dump of a standby fails on unlogged tables, and after a failover a row that is there is worth more than its few bytes.
--
-- The binary before neither reads nor writes the table.

-- +goose Up
SET LOCAL lock_timeout = '10s';

CREATE TABLE tunnels (
  id           uuid PRIMARY KEY,
  workspace_id uuid NOT NULL, -- without a foreign key: a check would lock rows that claims take
  incarnation  integer NOT NULL,
  attempt      integer NOT NULL, -- of the create job whose token the agent has
  replica_id   uuid NOT NULL, -- replicas.instance_id: this run of it
  url          text NOT NULL, -- where other replicas reach that replica; empty: nowhere
  connected_at timestamptz NOT NULL
);
-- The newest of a workspace takes new requests.
CREATE INDEX tunnels_of_workspace ON tunnels (workspace_id, incarnation, connected_at DESC);
CREATE INDEX tunnels_of_replica ON tunnels (replica_id);
