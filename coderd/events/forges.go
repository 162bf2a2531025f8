package events

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/eventsdb"
)

// jobsLag is how long after its time a change of a job may still appear: its transaction takes as long. What appears later
// is read when the screen reads everything again, once a minute.
const jobsLag = 10 * time.Second

// jobs knows which changes of the forges' jobs were seen. Jobs have no log; they have the time of their last change.
type jobs struct {
	last time.Time               // the latest change that was seen
	seen map[uuid.UUID]time.Time // those that a look finds again, as they were
}

// newJobs begins at an instant of the database.
func newJobs(now time.Time) jobs { return jobs{last: now, seen: map[uuid.UUID]time.Time{}} }

// after is from when on a look reads.
func (j *jobs) after() time.Time { return j.last.Add(-jobsLag) }

// fresh says whether a change was not seen before, and notes it.
func (j *jobs) fresh(id uuid.UUID, at time.Time) bool {
	if before, known := j.seen[id]; known && before.Equal(at) {
		return false
	}
	j.seen[id] = at
	if at.After(j.last) {
		j.last = at
	}
	return true
}

// forget drops what no look finds again.
func (j *jobs) forget() {
	for id, at := range j.seen {
		if !at.After(j.after()) {
			delete(j.seen, id)
		}
	}
}

// readJobs tells of which entities jobs have changed. Who watches reads lists of them, so one hint serves any number.
func (r *reader) readJobs(ctx context.Context, add func(change)) (behind bool, err error) {
	const most = batch * maxBatches
	rows, err := eventsdb.New(r.store).ForgeJobsSince(ctx, eventsdb.ForgeJobsSinceParams{After: r.jobs.after(), MaxRows: most})
	if err != nil {
		return false, xerrors.Errorf("read jobs of forges: %w", err)
	}
	told := map[uuid.UUID]bool{}
	for _, j := range rows {
		if r.jobs.fresh(j.ID, j.UpdatedAt) && !told[j.EntityID] {
			told[j.EntityID] = true
			add(change{hint: sdk.Hint{Topic: sdk.TopicForgeJob, ID: j.EntityID.String()}, organization: j.OrganizationID})
		}
	}
	if behind = len(rows) == most; behind { // so many in so short a time: what comes late among them is read with everything
		r.jobs.last = rows[most-1].UpdatedAt.Add(jobsLag)
	}
	r.jobs.forget()
	return behind, nil
}

// forge is what was seen of an entity.
type forge struct {
	organization uuid.UUID
	state        string
	runners      int64
}

// readForges compares what people see of the entities of forges and of their runners.
func (r *reader) readForges(ctx context.Context, add func(change)) error {
	rows, err := eventsdb.New(r.store).ForgeStates(ctx)
	if err != nil {
		return xerrors.Errorf("read states of forges: %w", err)
	}
	is := lists.Keyed(rows, func(row eventsdb.ForgeStatesRow) (uuid.UUID, forge) {
		return row.ID, forge{organization: row.OrganizationID, state: stateOf(row), runners: row.Runners}
	})
	if r.forges != nil {
		tell := func(topic string, id uuid.UUID, f forge) {
			add(change{hint: sdk.Hint{Topic: topic, ID: id.String()}, organization: f.organization})
		}
		for id, f := range is {
			before, known := r.forges[id]
			if !known || f.state != before.state {
				tell(sdk.TopicForge, id, f)
			}
			if f.runners != before.runners {
				tell(sdk.TopicRunner, id, f)
			}
		}
		for id, f := range r.forges {
			if _, still := is[id]; !still {
				tell(sdk.TopicForge, id, f)
			}
		}
	}
	r.forges = is
	return nil
}

func stateOf(row eventsdb.ForgeStatesRow) string {
	state := row.UpdatedAt.String()
	for _, at := range []*time.Time{row.StoppedAt, row.SucceededAt, row.ErrorAt, row.WaitUntil} {
		state += " "
		if at != nil {
			state += at.String()
		}
	}
	return state
}
