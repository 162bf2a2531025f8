// Package replicas keeps this process's row in the list of running replicas: who is there, where it listens, and which
// sites it reaches. Nothing is decided by it but where a site-bound job may start anew (queries/lifecycle/jobs.sql).
package replicas

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/replicasdb"
)

// Every is the time between heartbeats; three missed ones and the replica is listed as stale.
const Every = 5 * time.Second

// Replica is this process.
type Replica struct {
	Store      *database.Store
	Clock      quartz.Clock
	Log        slog.Logger
	Name       string
	InstanceID uuid.UUID // of this run
	Version    string
	Address    string          // where the API listens
	Sites      func() []string // asked at each beat: providers come and go
}

// Run beats until ctx ends, and then says that the replica stops.
func (r *Replica) Run(ctx context.Context) {
	lease.Loop{
		Clock: r.Clock, Log: r.Log, What: "report as alive", Tags: []string{"replicas", "beat"}, Every: Every,
	}.Run(ctx, func(ctx context.Context) error { return r.beat(ctx, false) })
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.beat(last, true) // only so that the list says so; the process ends either way
}

// Leave takes the replica off the list, when it has stopped in order.
func (r *Replica) Leave(ctx context.Context) error {
	return replicasdb.New(r.Store).LeaveReplica(ctx, replicasdb.LeaveReplicaParams{Name: r.Name, InstanceID: r.InstanceID})
}

func (r *Replica) beat(ctx context.Context, stopping bool) error {
	return replicasdb.New(r.Store).BeatReplica(ctx, replicasdb.BeatReplicaParams{
		Name: r.Name, InstanceID: r.InstanceID, Version: r.Version, Address: r.Address, Sites: r.Sites(),
		Stopping: stopping,
	})
}
