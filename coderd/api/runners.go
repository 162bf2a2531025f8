package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerRunners() {
	register(s, operation{
		id: "list-runners", method: http.MethodGet, path: "/runners", action: auth.ActReadForges, tag: "forges",
		summary:     "List the runners of forges, newest first",
		description: "A runner is a workspace of a runner preset: what can be done with it is done with the workspace.",
	}, s.listRunners)
	register(s, operation{
		id: "get-runner", method: http.MethodGet, path: "/runners/{runner}", action: auth.ActReadForges, tag: "forges",
		summary: "Show one runner, named by its name or the id of its workspace",
	}, s.getRunner)
}

type listRunnersInput struct {
	Forge    string `query:"forge" doc:"Name of an entity"`
	Status   string `query:"status" enum:"pending,idle,active,offline,gone" doc:"At the forge; gone implies gone=true"`
	Template string `query:"template"`
	Preset   string `query:"preset"`
	Q        string `query:"q" maxLength:"200" doc:"Words, each a part of the name, the pool, the forge, the labels or the job, in any case"`
	Gone     bool   `query:"gone" doc:"Also those that there are no more"`
	Limit    int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After    string `query:"after" doc:"What the page before gave as next"`
}

func (s *server) listRunners(ctx context.Context, who auth.Identity, in *listRunnersInput) (*body[sdk.RunnerList], error) {
	entity, err := s.forgeFilter(ctx, who, in.Forge)
	if err != nil {
		return nil, err
	}
	params := viewsdb.RunnerPageParams{
		OrganizationID: who.OrganizationID, Gone: in.Gone || in.Status == string(database.ForgeRunnerStatusGone),
		EntityID: entity, Template: given(in.Template), Preset: given(in.Preset),
		Words: patterns(in.Q), MaxRunners: in.Limit + 1,
	}
	if in.Status != "" {
		status := database.ForgeRunnerStatus(in.Status)
		params.Status = &status
	}
	if params.AfterAt, params.AfterID, err = afterOf(in.After); err != nil {
		return nil, err
	}
	runners, err := s.runners(ctx, params)
	if err != nil {
		return nil, err
	}
	list := sdk.RunnerList{Runners: runners}
	more := len(runners) > int(in.Limit)
	if more {
		list.Runners = runners[:in.Limit]
	}
	n, err := fitting(list.Runners)
	if err != nil {
		return nil, err
	}
	if (more || n < len(list.Runners)) && n > 0 {
		list.Runners = list.Runners[:n]
		list.Next = encodeCursor(list.Runners[n-1].CreatedAt, list.Runners[n-1].WorkspaceID)
	}
	return bodyOf(list), nil
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
	list := make([]sdk.Runner, len(rows))
	for i, row := range rows {
		list[i] = sdk.Runner{
			Name: row.Name, WorkspaceID: row.WorkspaceID, State: string(row.State), Status: string(row.Status),
			StatusAt: row.StatusAt, Entity: row.Entity, Template: row.Template, Preset: row.Preset, Labels: row.RunnerLabels,
			RegisteredAt: row.RegisteredAt, CreatedAt: row.CreatedAt, Job: byID[row.JobRow.UUID],
		}
		if row.RunnerID != nil {
			list[i].RunnerID = *row.RunnerID
		}
	}
	return list, nil
}

type runnerInput struct {
	Runner string `path:"runner" doc:"Name of the runner, or id of its workspace"`
}

// getRunner shows one, also one that is gone, as it was last.
func (s *server) getRunner(ctx context.Context, who auth.Identity, in *runnerInput) (*body[sdk.Runner], error) {
	params := viewsdb.RunnerPageParams{OrganizationID: who.OrganizationID, Gone: true, MaxRunners: 1}
	if id, err := uuid.Parse(in.Runner); err == nil {
		params.WorkspaceID = uuid.NullUUID{UUID: id, Valid: true}
	} else {
		params.Name = &in.Runner
	}
	runners, err := s.runners(ctx, params)
	if err != nil {
		return nil, err
	}
	if len(runners) == 0 {
		return nil, auth.Refuse(auth.ErrNotFound, "there is no runner %q: see `prewarm runner list`", in.Runner)
	}
	return bodyOf(runners[0]), nil
}
