package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerRunners() {
	answer(s, operation{
		id: "list-runners", method: http.MethodGet, path: "/runners", action: auth.ActReadForges, tag: "forges",
		summary:     "List the runners of forges, newest first",
		description: "A runner is a workspace of a runner preset: what can be done with it is done with the workspace.",
	}, s.listRunners)
	answer(s, operation{
		id: "get-runner", method: http.MethodGet, path: "/runners/{runner}", action: auth.ActReadForges, tag: "forges",
		summary: "Show one runner, named by its name or the id of its workspace",
	}, s.getRunner)
}

func (s *server) listRunners(ctx context.Context, who auth.Identity, in *sdk.RunnerFilter) (sdk.RunnerList, error) {
	entity, err := s.forgeFilter(ctx, who, in.Forge)
	if err != nil {
		return sdk.RunnerList{}, err
	}
	params := viewsdb.RunnerPageParams{
		OrganizationID: who.OrganizationID, Gone: in.Gone || in.Status == string(database.ForgeRunnerStatusGone),
		Status: database.OrNull(database.ForgeRunnerStatus(in.Status)), EntityID: entity, Template: database.OrNull(in.Template),
		Preset: database.OrNull(in.Preset), Words: patterns(in.Q), MaxRunners: in.Limit + 1,
	}
	if params.AfterAt, params.AfterID, err = afterOf(in.After); err != nil {
		return sdk.RunnerList{}, err
	}
	runners, err := s.runners(ctx, params)
	if err != nil {
		return sdk.RunnerList{}, err
	}
	var list sdk.RunnerList
	page, more := firstOf(runners, in.Limit)
	list.Runners, list.Next, err = fitting(page, more, func(r sdk.Runner) string { return encodeCursor(r.CreatedAt, r.WorkspaceID) })
	return list, err
}

// runners reads a page, each runner with the job that it is at.
func (s *server) runners(ctx context.Context, params viewsdb.RunnerPageParams) ([]sdk.Runner, error) {
	rows, err := viewsdb.New(s.Store).RunnerPage(ctx, params)
	if err != nil {
		return nil, xerrors.Errorf("list runners: %w", err)
	}
	var ids []uuid.UUID
	for _, row := range rows {
		if row.JobRow.Valid {
			ids = append(ids, row.JobRow.UUID)
		}
	}
	jobs, err := s.forgeJobs(ctx, ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]*sdk.ForgeJob, len(jobs))
	for i := range jobs {
		byID[jobs[i].ID] = &jobs[i]
	}
	return lists.Of(rows, func(row viewsdb.RunnerPageRow) sdk.Runner {
		return sdk.Runner{
			Name: row.Name, WorkspaceID: row.WorkspaceID, State: string(row.State), Status: string(row.Status),
			StatusAt: row.StatusAt, Entity: row.Entity, Template: row.Template, Preset: row.Preset, Labels: row.RunnerLabels,
			RegisteredAt: row.RegisteredAt, CreatedAt: row.CreatedAt, Job: byID[row.JobRow.UUID],
			RunnerID: database.OrZero(row.RunnerID),
		}
	}), nil
}

type runnerInput struct {
	Runner string `path:"runner" doc:"Name of the runner, or id of its workspace"`
}

// getRunner shows one, also one that is gone, as it was last.
func (s *server) getRunner(ctx context.Context, who auth.Identity, in *runnerInput) (sdk.Runner, error) {
	params := viewsdb.RunnerPageParams{OrganizationID: who.OrganizationID, Gone: true, MaxRunners: 1}
	if id, err := uuid.Parse(in.Runner); err == nil {
		params.WorkspaceID = uuid.NullUUID{UUID: id, Valid: true}
	} else {
		params.Name = &in.Runner
	}
	runners, err := s.runners(ctx, params)
	if err != nil {
		return sdk.Runner{}, err
	}
	if len(runners) == 0 {
		return sdk.Runner{}, auth.Refuse(auth.ErrNotFound, "there is no runner %q: see `prewarm runner list`", in.Runner)
	}
	return runners[0], nil
}
