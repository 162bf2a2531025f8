package inbox

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

// gone is how a job ended that the forge does not know any more. "superseded", by a later attempt, is said in SQL.
const gone = "gone"

// labelMark separates labels on their way into SQL; text takes it out of every one of them.
const labelMark = "\x1f"

// told is what an entity, or its forge when asked, said of a job.
type told struct {
	entity Entity
	job    forge.Job
}

// clean makes what a forge said fit for rows, whatever it was: text that can be stored, an attempt from 1, and no times of
// what has not happened.
func clean(j forge.Job) forge.Job {
	j.Attempt = min(max(j.Attempt, 1), math.MaxInt32)
	for _, s := range []*string{&j.Repository, &j.Workflow, &j.Name, &j.URL, &j.Conclusion, &j.RunnerName} {
		*s = text(*s)
	}
	labels := lists.Of(j.Labels, text)
	j.Labels = forge.Labels(labels)
	if j.State != forge.Completed {
		j.Conclusion, j.CompletedAt = "", time.Time{}
	}
	if j.State != forge.Completed && j.State != forge.InProgress {
		j.StartedAt, j.RunnerID, j.RunnerName = time.Time{}, 0, ""
	}
	return j
}

// text is what PostgreSQL stores of a string: valid, without control characters, and at most mostText characters.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\x7f' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if runes := []rune(s); len(runes) > mostText {
		s = string(runes[:mostText])
	}
	return s
}

// merge puts what was told into forge_jobs. It returns the presets of jobs that may be demand no more. It runs in a
// transaction, and excludes other merges and matches until its end.
func (s *Service) merge(ctx context.Context, db database.DBTX, tolds []told) (freed []uuid.UUID, err error) {
	if len(tolds) == 0 {
		return nil, nil
	}
	if err := inboxdb.New(db).LockForgeJobs(ctx); err != nil {
		return nil, xerrors.Errorf("lock jobs: %w", err)
	}
	for _, of := range byEntity(tolds) {
		ended, err := s.mergeOf(ctx, db, of)
		if err != nil {
			return nil, err
		}
		freed = append(freed, ended...)
	}
	return freed, nil
}

func byEntity(tolds []told) (groups [][]told) {
	at := map[uuid.UUID]int{}
	for _, t := range tolds {
		i, known := at[t.entity.ID]
		if !known {
			i = len(groups)
			at[t.entity.ID], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

// mergeOf merges what one entity told: in layers, as a statement takes no job twice.
func (s *Service) mergeOf(ctx context.Context, db database.DBTX, tolds []told) (freed []uuid.UUID, err error) {
	q := inboxdb.New(db)
	var touched []uuid.UUID
	var jobs []int64
	for _, layer := range layers(tolds) {
		rows, err := q.MergeForgeJobs(ctx, s.rowsOf(layer))
		if err != nil {
			return nil, xerrors.Errorf("merge jobs: %w", err)
		}
		for _, row := range rows {
			touched = append(touched, row.ID)
			if row.State != database.ForgeJobStateQueued && row.State != database.ForgeJobStateWaiting && row.PresetID.Valid {
				freed = append(freed, row.PresetID.UUID)
			}
		}
		for _, t := range layer {
			jobs = append(jobs, t.job.ID)
		}
	}
	ended, err := q.SupersedeForgeJobs(ctx, inboxdb.SupersedeForgeJobsParams{ForgeUrl: tolds[0].entity.ForgeURL, JobIds: jobs})
	if err != nil {
		return nil, xerrors.Errorf("end earlier attempts: %w", err)
	}
	for _, row := range ended {
		touched = append(touched, row.ID)
		if row.PresetID.Valid {
			freed = append(freed, row.PresetID.UUID)
		}
	}
	if _, err := q.BindForgeJobs(ctx, touched); err != nil {
		return nil, xerrors.Errorf("bind jobs to runners: %w", err)
	}
	return freed, nil
}

// layers splits so that each has a job once, and all of them in one order.
func layers(tolds []told) (split [][]told) {
	type key struct {
		id      int64
		attempt int
	}
	times := map[key]int{}
	for _, t := range tolds {
		k := key{t.job.ID, t.job.Attempt}
		n := times[k]
		times[k]++
		if n == len(split) {
			split = append(split, nil)
		}
		split[n] = append(split[n], t)
	}
	for _, layer := range split {
		slices.SortFunc(layer, func(a, b told) int {
			return cmp.Or(cmp.Compare(a.job.ID, b.job.ID), cmp.Compare(a.job.Attempt, b.job.Attempt))
		})
	}
	return split
}

func (s *Service) rowsOf(tolds []told) inboxdb.MergeForgeJobsParams {
	e := tolds[0].entity
	p := inboxdb.MergeForgeJobsParams{OrganizationID: e.OrganizationID, ForgeUrl: e.ForgeURL, EntityID: e.ID}
	for _, t := range tolds {
		j := t.job
		p.Ids, p.JobIds, p.Attempts = append(p.Ids, s.NewID()), append(p.JobIds, j.ID), append(p.Attempts, int32(j.Attempt))
		p.Repositories, p.RunIds = append(p.Repositories, j.Repository), append(p.RunIds, j.RunID)
		p.Workflows, p.Names, p.Urls = append(p.Workflows, j.Workflow), append(p.Names, j.Name), append(p.Urls, j.URL)
		p.LabelSets, p.States = append(p.LabelSets, strings.Join(j.Labels, labelMark)), append(p.States, string(j.State))
		p.Conclusions = append(p.Conclusions, j.Conclusion)
		p.RunnerIds, p.RunnerNames = append(p.RunnerIds, j.RunnerID), append(p.RunnerNames, j.RunnerName)
		p.QueuedAt, p.StartedAt = append(p.QueuedAt, j.QueuedAt), append(p.StartedAt, j.StartedAt)
		p.CompletedAt = append(p.CompletedAt, j.CompletedAt)
	}
	return p
}
