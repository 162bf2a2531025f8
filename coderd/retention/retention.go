// Package retention deletes what is old: rows of deleted workspaces, ended claims with their idempotency keys, claim history,
// samples and proofs of pools, sessions, webhooks' deliveries, jobs and runners of forges, states of Terraform, and uploaded
// modules. It goes in small batches, on every replica, each skipping what another is at. History and the audit log are
// partitioned by time: their partitions are made ahead and dropped (logs.go).
package retention

import (
	"context"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/retentiondb"
)

const (
	every = 10 * time.Minute
	batch = 1000
	day   = 24 * time.Hour
	// keepPlans is how many plans of each organization are kept, the latest; each ends by itself too.
	keepPlans = 200
	// modulesBatch is how many uploaded modules are deleted at a time: each may have 10 MiB. The rest is for the next time.
	modulesBatch = 50
	// keepStates is how many versions of each Terraform state are kept, the newest.
	keepStates = 5
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
	q := retentiondb.New(k.Store)
	for _, purge := range []func(context.Context) (int64, error){
		after(7*day, q.PurgeWorkspaces),
		after(keepHistory, q.PurgeHistory),
		after(30*day, q.PurgeClaims),
		after(day, q.FreeOldKeys), // of claims that were released
		after(keepAudit, q.PurgeAudit),
		after(30*day, q.PurgeNotifications),
		after(day, q.PurgeSessions),
		after(35*day, q.PurgeClaimHistory),   // a little more than sizes are computed from
		after(14*day, q.PurgePresetSamples),  // of pools, for charts
		after(30*day, q.PurgePoolProofs),     // of pools that are no preset's any more; as long as a rollback is likely
		after(7*day, q.PurgeForgeDeliveries), // of webhooks, once handled
		after(7*day, q.PurgeForgeRunners),    // once unregistered, and their workspace is purged
		after(30*day, q.PurgeForgeJobs),      // once completed
		func(ctx context.Context) (int64, error) { return q.PurgeFailureCauses(ctx, (30 * day).Seconds()) }, // as history
		func(ctx context.Context) (int64, error) { return q.PurgePlans(ctx, keepPlans) },
		func(ctx context.Context) (int64, error) {
			return q.PurgeTerraformStates(ctx, retentiondb.PurgeTerraformStatesParams{Keep: keepStates, Batch: batch})
		},
		func(ctx context.Context) (int64, error) { return q.PurgeTerraformRuns(ctx, batch) },
		func(ctx context.Context) (int64, error) { // that nobody names
			return q.PurgeTerraformModules(ctx, retentiondb.PurgeTerraformModulesParams{KeepS: day.Seconds(), Batch: modulesBatch})
		},
		q.PurgeIntents, q.PurgePresetSizes, q.PurgeClaimParameters, q.PurgeReplicas,
	} {
		for n := int64(batch); n >= batch; {
			var err error
			if n, err = purge(ctx); err != nil {
				return err
			}
		}
	}
	return k.keepLogs(ctx)
}

// after deletes a batch of what is older than that.
func after[P ~struct {
	KeepS float64
	Batch int32
}](keep time.Duration, purge func(context.Context, P) (int64, error)) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		return purge(ctx, P{KeepS: keep.Seconds(), Batch: batch})
	}
}
