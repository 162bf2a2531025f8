-- The record of who did what, written in the transaction of the deed.

-- name: InsertAudit :exec
INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                       reason, source)
VALUES (prewarm_now(), @actor_id, @organization_id, @action, @target_type, @target_id, @target_name, @before, @after,
        @reason, @source);
