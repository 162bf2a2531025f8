package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerForgeJobs() {
	answer(s, operation{
		id: "list-forge-jobs", method: http.MethodGet, path: "/forge-jobs", action: auth.ActReadForges, tag: "forges",
		summary:     "List the jobs of forges, newest first, with counts by state",
		description: "A search by words ends a page after some thousands of jobs, even an empty one: next goes on.",
	}, s.listForgeJobs)
	answer(s, operation{
		id: "get-forge-job", method: http.MethodGet, path: "/forge-jobs/{job}", action: auth.ActReadForges, tag: "forges",
		summary:     "Show the attempts of a job, newest first",
		description: "The job is named by the forge's number, or by the id of one attempt, which is then the only one shown.",
	}, s.getForgeJob)
}

func (s *server) listForgeJobs(
	ctx context.Context, who auth.Identity, in *sdk.ForgeJobFilter,
) (sdk.ForgeJobList, error) {
	entity, err := s.forgeFilter(ctx, who, in.Forge)
	if err != nil {
		return sdk.ForgeJobList{}, err
	}
	params := viewsdb.ForgeJobPageParams{
		OrganizationID: who.OrganizationID, EntityID: entity, Unserved: in.Unserved, Template: database.OrNull(in.Template),
		Preset: database.OrNull(in.Preset), State: database.OrNull(database.ForgeJobState(in.State)), Words: patterns(in.Q),
		MaxJobs: in.Limit + 1,
	}
	if params.AfterAt, params.AfterID, err = afterOf(in.After); err != nil {
		return sdk.ForgeJobList{}, err
	}
	var list sdk.ForgeJobList
	bottom := "" // where a search stopped; empty: there is nothing more to search
	if len(params.Words) > 0 {
		window, err := viewsdb.New(s.Store).ForgeJobWindow(ctx, viewsdb.ForgeJobWindowParams{
			OrganizationID: who.OrganizationID, AfterAt: params.AfterAt, AfterID: params.AfterID, Size: searched - 1,
		})
		switch {
		case err == nil:
			bottom = encodeCursor(window.QueuedAt, window.ID)
			params.BottomAt, params.BottomID = &window.QueuedAt, uuid.NullUUID{UUID: window.ID, Valid: true}
		case !database.NoRows(err):
			return sdk.ForgeJobList{}, xerrors.Errorf("find how far to search jobs: %w", err)
		}
	}
	page, err := viewsdb.New(s.Store).ForgeJobPage(ctx, params)
	if err != nil {
		return sdk.ForgeJobList{}, xerrors.Errorf("find jobs of forges: %w", err)
	}
	if list.Counts, err = s.forgeJobCounts(ctx, who, entity); err != nil {
		return sdk.ForgeJobList{}, err
	}
	page, more := firstOf(page, in.Limit)
	jobs, err := s.forgeJobs(ctx, lists.Of(page, func(row viewsdb.ForgeJobPageRow) uuid.UUID { return row.ID }))
	if err != nil {
		return sdk.ForgeJobList{}, err
	}
	list.Jobs, list.Next, err = fitting(jobs, more, func(j sdk.ForgeJob) string { return encodeCursor(j.QueuedAt, j.ID) })
	list.Next = cmp.Or(list.Next, bottom)
	return list, err
}

func (s *server) forgeJobCounts(ctx context.Context, who auth.Identity, entity uuid.NullUUID) (sdk.ForgeJobCounts, error) {
	row, err := viewsdb.New(s.Store).ForgeJobCounts(ctx, viewsdb.ForgeJobCountsParams{OrganizationID: who.OrganizationID, EntityID: entity})
	if err != nil {
		return sdk.ForgeJobCounts{}, xerrors.Errorf("count jobs of forges: %w", err)
	}
	return sdk.ForgeJobCounts{
		Waiting: int(row.Waiting), Queued: int(row.Queued), Unserved: int(row.Unserved), InProgress: int(row.InProgress),
		Completed: int(row.Completed),
	}, nil
}

// forgeJobs reads jobs by their ids, newest first.
func (s *server) forgeJobs(ctx context.Context, ids []uuid.UUID) ([]sdk.ForgeJob, error) {
	rows, err := viewsdb.New(s.Store).ForgeJobViews(ctx, ids)
	if err != nil {
		return nil, xerrors.Errorf("read jobs of forges: %w", err)
	}
	return lists.Of(rows, forgeJobOf), nil
}

func forgeJobOf(row viewsdb.ForgeJobViewsRow) sdk.ForgeJob {
	j := sdk.ForgeJob{
		ID: row.ID, Entity: row.Entity, JobID: row.JobID, Attempt: int(row.Attempt), Repository: row.Repository,
		Workflow: row.Workflow, Name: row.Name, URL: row.Url, Labels: row.Labels, State: string(row.State),
		Conclusion: row.Conclusion, Template: row.Template, Preset: row.Preset, Runner: row.RunnerName,
		Workspace: idOrNil(row.WorkspaceID), QueuedAt: row.QueuedAt, StartedAt: row.StartedAt, CompletedAt: row.CompletedAt, WaitS: row.WaitS,
	}
	if row.State == database.ForgeJobStateQueued {
		j.Unserved = row.Unserved
	}
	if row.Delayed && row.RunnersWaitUntil != nil {
		delay := explain.LeftAlone(*row.RunnersWaitUntil, row.RunnersError)
		j.Delay = &sdk.JobDelay{Code: string(delay.Code), Text: delay.Text, Until: *row.RunnersWaitUntil}
	}
	return j
}

type forgeJobInput struct {
	Job string `path:"job" doc:"The forge's number of the job, or the id of one attempt"`
}

func (s *server) getForgeJob(ctx context.Context, who auth.Identity, in *forgeJobInput) ([]sdk.ForgeJob, error) {
	var ids []uuid.UUID
	if number, err := strconv.ParseInt(in.Job, 10, 64); err == nil {
		ids, err = viewsdb.New(s.Store).ForgeJobNamed(ctx, viewsdb.ForgeJobNamedParams{OrganizationID: who.OrganizationID, JobID: number})
		if err != nil {
			return nil, xerrors.Errorf("find job of a forge: %w", err)
		}
	} else if id, err := uuid.Parse(in.Job); err == nil {
		found, err := viewsdb.New(s.Store).ForgeJobOfOrganization(ctx, viewsdb.ForgeJobOfOrganizationParams{
			OrganizationID: who.OrganizationID, ID: id,
		})
		if err != nil && !database.NoRows(err) {
			return nil, xerrors.Errorf("find attempt of a job: %w", err)
		}
		if err == nil {
			ids = append(ids, found)
		}
	}
	if len(ids) == 0 {
		return nil, auth.Refuse(auth.ErrNotFound, "there is no job %q on record: name it by the forge's number or by an id of "+
			"`prewarm job list -o json`", in.Job)
	}
	return s.forgeJobs(ctx, ids)
}
