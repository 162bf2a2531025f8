-- A job of its own hands a claimed workspace over to its owner at the provider, where its spec asks for that.
--
-- The binary before knows none of this and runs on: it leases no such job, and cancels one as any other.

-- +goose Up
ALTER TYPE job_kind ADD VALUE 'handover';
