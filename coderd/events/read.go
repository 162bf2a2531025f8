package events

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/eventsdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	batch = 500 // rows of a log in one statement: so few that it never pays to read all workspaces for them
	// maxBatches bounds what a look reads. Who is further behind is told to read everything.
	maxBatches = 10
)

// reader finds what has changed since it last looked.
type reader struct {
	store    *database.Store
	history  cursor
	audit    cursor
	status   int64
	replicas map[string]string // what was last seen of each, by name
	jobs     jobs
	forges   map[uuid.UUID]forge // what was last seen of each
}

// begin makes the reader look for what changes from now on.
func (r *reader) begin(ctx context.Context, now time.Time) error {
	marks, err := eventsdb.New(r.store).EventMarks(ctx)
	if err != nil {
		return xerrors.Errorf("read ends of logs: %w", err)
	}
	r.history, r.audit, r.status, r.replicas = newCursor(marks.History), newCursor(marks.Audit), marks.Status, nil
	r.jobs, r.forges = newJobs(marks.Now), nil
	_, _, err = r.read(ctx, now) // not news, but shows which numbers are still to come
	return err
}

// read returns what has changed; behind says that it was too much to tell. With an error, changes are those found before
// it, and the rest is found by the next call.
func (r *reader) read(ctx context.Context, now time.Time) (changes []change, behind bool, err error) {
	add := func(c change) { changes = append(changes, c) }
	historyBehind, err := r.readHistory(ctx, now, add)
	if err != nil {
		return changes, historyBehind, err
	}
	auditBehind, err := r.readAudit(ctx, now, add)
	behind = historyBehind || auditBehind
	if err != nil {
		return changes, behind, err
	}
	statuses, err := eventsdb.New(r.store).StatusSince(ctx, r.status)
	if err != nil {
		return changes, behind, xerrors.Errorf("read what passes wrote: %w", err)
	}
	for _, s := range statuses {
		r.status = s.PassSeq
		add(change{hint: sdk.Hint{Topic: sdk.TopicPreset, ID: s.PresetID.String()}, organization: s.OrganizationID})
	}
	if err := r.readReplicas(ctx, add); err != nil {
		return changes, behind, err
	}
	jobsBehind, err := r.readJobs(ctx, add)
	behind = behind || jobsBehind
	if err != nil {
		return changes, behind, err
	}
	return changes, behind, r.readForges(ctx, add)
}

func (r *reader) readHistory(ctx context.Context, now time.Time, add func(change)) (behind bool, err error) {
	for range maxBatches {
		rows, err := eventsdb.New(r.store).HistorySince(ctx, eventsdb.HistorySinceParams{
			After: r.history.last, MaxRows: batch, Gaps: r.history.missing(),
		})
		if err != nil {
			return false, xerrors.Errorf("read history: %w", err)
		}
		ids, fresh := make([]int64, len(rows)), 0
		for i, h := range rows {
			ids[i] = h.ID
			if h.ID > r.history.last {
				fresh++
			}
			c := change{
				hint:         sdk.Hint{Topic: sdk.TopicWorkspace, ID: h.WorkspaceID.String()},
				organization: h.OrganizationID.UUID, owner: h.OwnerID.UUID,
			}
			if !h.OrganizationID.Valid {
				continue // purged since
			}
			add(c)
			c.hint = sdk.Hint{Topic: sdk.TopicPreset, ID: h.PresetID.UUID.String()}
			add(c)
			if h.ClaimID.Valid {
				c.hint = sdk.Hint{Topic: sdk.TopicClaim, ID: h.ClaimID.UUID.String()}
				add(c)
			}
		}
		r.history.take(ids, now)
		if fresh < batch {
			return false, nil
		}
	}
	return true, r.skip(ctx)
}

func (r *reader) readAudit(ctx context.Context, now time.Time, add func(change)) (behind bool, err error) {
	for range maxBatches {
		rows, err := eventsdb.New(r.store).AuditSince(ctx, eventsdb.AuditSinceParams{
			After: r.audit.last, MaxRows: batch, Gaps: r.audit.missing(),
		})
		if err != nil {
			return false, xerrors.Errorf("read audit log: %w", err)
		}
		ids, fresh := make([]int64, len(rows)), 0
		for i, a := range rows {
			ids[i] = a.ID
			if a.ID > r.audit.last {
				fresh++
			}
			c := change{organization: a.OrganizationID.UUID, owner: a.ActorID}
			c.hint = sdk.Hint{Topic: sdk.TopicAudit, ID: strconv.FormatInt(a.ID, 10)}
			add(c)
			if _, known := topics[a.TargetType]; known {
				c.hint = sdk.Hint{Topic: a.TargetType, ID: a.TargetID}
				add(c)
			}
		}
		r.audit.take(ids, now)
		if fresh < batch {
			return false, nil
		}
	}
	return true, r.skip(ctx)
}

// skip goes to the ends of the logs. What is between is not told, but is there to be read.
func (r *reader) skip(ctx context.Context) error {
	marks, err := eventsdb.New(r.store).EventMarks(ctx)
	if err != nil {
		return xerrors.Errorf("read ends of logs: %w", err)
	}
	r.history.last, r.audit.last = max(r.history.last, marks.History), max(r.audit.last, marks.Audit)
	return nil
}

// readReplicas compares what people see of the replicas; heartbeats alone are no change.
func (r *reader) readReplicas(ctx context.Context, add func(change)) error {
	rows, err := viewsdb.New(r.store).Replicas(ctx)
	if err != nil {
		return xerrors.Errorf("read replicas: %w", err)
	}
	is := lists.Keyed(rows, func(row viewsdb.ReplicasRow) (string, string) {
		return row.Name, row.State + " " + row.Version + " " + row.Address + " " + row.StartedAt.String()
	})
	if r.replicas != nil {
		for name := range is {
			if is[name] != r.replicas[name] {
				add(change{hint: sdk.Hint{Topic: sdk.TopicReplica, ID: name}})
			}
		}
		for name := range r.replicas {
			if _, still := is[name]; !still {
				add(change{hint: sdk.Hint{Topic: sdk.TopicReplica, ID: name}})
			}
		}
	}
	r.replicas = is
	return nil
}
