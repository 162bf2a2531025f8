// Package retention deletes what is old: rows of deleted workspaces, history, ended claims with their idempotency keys,
// claim history, samples and proofs of pools, audit, webhooks' deliveries, and jobs and runners of forges. It goes in small batches, on
// every replica, each skipping what another is at.
package retention

import (
	"context"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	every = 10 * time.Minute
	batch = 1000
	day   = 24 * time.Hour

	keepWorkspaces = 7 * day
	keepHistory    = 30 * day
	keepClaims     = 30 * day
	keepKeys       = day // of claims that were released
	keepAudit      = 365 * day
	keepNotices    = 30 * day
	keepSizing     = 35 * day // a little more than sizes are computed from
	keepSamples    = 14 * day // of pools, for charts
	keepProofs     = 30 * day // of pools that are no preset's any more; as long as a rollback is likely
	keepDeliveries = 7 * day  // of webhooks, once handled
	keepForgeJobs  = 30 * day // once completed
	keepRunners    = 7 * day  // once unregistered, and their workspace is purged
	keepPlans      = 200      // the latest of each organization; each ends by itself too
)

// Keeper deletes what is old.
type Keeper struct {
	Store *database.Store
	Clock quartz.Clock
	Log   slog.Logger
}

// Run deletes now and then until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	lease.Loop{
		Clock: k.Clock, Log: k.Log, What: "delete old rows", Tags: []string{"retention"}, Later: true,
		Pause: func() time.Duration { return every/2 + rand.N(every) },
	}.Run(ctx, k.Purge)
}

// Purge deletes all that is old now.
func (k *Keeper) Purge(ctx context.Context) error {
	q := k.Store.Queries
	for _, purge := range []func() (int64, error){
		func() (int64, error) {
			return q.PurgeWorkspaces(ctx, database.PurgeWorkspacesParams{KeepS: keepWorkspaces.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeHistory(ctx, database.PurgeHistoryParams{KeepS: keepHistory.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeClaims(ctx, database.PurgeClaimsParams{KeepS: keepClaims.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.FreeOldKeys(ctx, database.FreeOldKeysParams{KeepS: keepKeys.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeAudit(ctx, database.PurgeAuditParams{KeepS: keepAudit.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeNotifications(ctx, database.PurgeNotificationsParams{KeepS: keepNotices.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeClaimHistory(ctx, database.PurgeClaimHistoryParams{KeepS: keepSizing.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgePresetSamples(ctx, database.PurgePresetSamplesParams{KeepS: keepSamples.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgePoolProofs(ctx, database.PurgePoolProofsParams{KeepS: keepProofs.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeForgeDeliveries(ctx, database.PurgeForgeDeliveriesParams{KeepS: keepDeliveries.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeForgeRunners(ctx, database.PurgeForgeRunnersParams{KeepS: keepRunners.Seconds(), Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeForgeJobs(ctx, database.PurgeForgeJobsParams{KeepS: keepForgeJobs.Seconds(), Batch: batch})
		},
	} {
		for {
			n, err := purge()
			if err != nil {
				return err
			}
			if n < batch {
				break
			}
		}
	}
	if _, err := q.PurgeFailureCauses(ctx, keepHistory.Seconds()); err != nil {
		return err
	}
	if _, err := q.PurgePlans(ctx, keepPlans); err != nil {
		return err
	}
	if _, err := q.PurgeIntents(ctx); err != nil {
		return err
	}
	if _, err := q.PurgePresetSizes(ctx); err != nil {
		return err
	}
	if _, err := q.EndExpiredWaiting(ctx); err != nil {
		return err
	}
	if _, err := q.PurgeClaimParameters(ctx); err != nil {
		return err
	}
	_, err := q.PurgeReplicas(ctx)
	return err
}
