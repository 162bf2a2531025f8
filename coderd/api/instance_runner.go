package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// Runners are workspaces that are runners of forges; *runners.Service has them.
type Runners interface {
	Configuration(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (runners.Configuration, error)
	RegistrationToken(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (string, error)
	File(ctx context.Context, workspaceID uuid.UUID, incarnation int32, name string) ([]byte, error)
	Place(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (runners.Place, error)
	Report(ctx context.Context, workspaceID uuid.UUID, incarnation int32, said runners.Said) error
	Deregister(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (runners.Verdict, error)
	Abandon(ctx context.Context, by workspaces.Actor, workspaceID uuid.UUID, incarnation int32) (
		database.WorkspaceState, error)
}

func (s *server) registerInstanceRunner() {
	registerForInstance(s, operation{
		id: "get-instance-runner-configuration", method: http.MethodGet, path: "/instance/runner-configuration",
		action: auth.ActReadInstance, summary: "Register the workspace's runner at its forge, and read its configuration",
		description: "It is a secret, made when it is asked for, and read once: 409 from then on. 503 while it cannot be " +
			"had yet, and 502 after an error of the forge: ask again after the seconds in Retry-After. 404 for a workspace " +
			"that is no runner.",
	}, s.instanceRunnerConfiguration)
	registerForInstance(s, operation{
		id: "report-instance-runner", method: http.MethodPost, path: "/instance/runner", action: auth.ActReportInstance,
		status: http.StatusNoContent, summary: "Say how the workspace's runner is",
		description: "`finished`: it has ended, and the workspace is collected. `idle` and `active` say that it is connected " +
			"to its forge, which is known sooner then than by the forge's listing.",
	}, s.reportInstanceRunner)
}

func (s *server) instanceRunnerConfiguration(
	ctx context.Context, i instance.Instance, _ *none,
) (*body[sdk.RunnerConfiguration], error) {
	if s.Runners == nil {
		return nil, huma.Error404NotFound(runners.ErrNoRunner.Error())
	}
	c, err := s.Runners.Configuration(ctx, i.WorkspaceID, i.Bearer.Incarnation)
	if err != nil {
		return nil, s.runnerProblem(ctx, err)
	}
	answer := sdk.RunnerConfiguration{
		Name: c.Name, Kind: c.Kind, URL: c.URL, JITConfig: c.JITConfig, Token: c.Token, Labels: c.Labels, Group: c.Group,
		Ephemeral: true, CABundle: c.CABundle,
	}
	if !c.ExpiresAt.IsZero() {
		answer.ExpiresAt = &c.ExpiresAt
	}
	return bodyOf(answer), nil
}

func (s *server) reportInstanceRunner(ctx context.Context, i instance.Instance, in *body[sdk.RunnerReport]) (*struct{}, error) {
	err := runners.ErrNoRunner
	if s.Runners != nil {
		err = s.Runners.Report(ctx, i.WorkspaceID, i.Bearer.Incarnation, runners.Said(in.Body.Status))
	}
	if err != nil {
		return nil, s.runnerProblem(ctx, err)
	}
	return nil, nil //nolint:nilnil // Nothing to say.
}

// reportedAsRunner passes on what user data that was written for GARM says of its runner with its status.
func (s *server) reportedAsRunner(ctx context.Context, i instance.Instance, status sdk.AgentStatus) error {
	if s.Runners == nil || status != "idle" && status != "active" {
		return nil
	}
	err := s.Runners.Report(ctx, i.WorkspaceID, i.Bearer.Incarnation, runners.Said(status))
	if errors.Is(err, runners.ErrNoRunner) {
		return nil
	}
	return err
}

// forgePause is in how many seconds an agent should try again after an error of a forge.
const forgePause = 5 * time.Second

// runnerProblem turns an error of runners into what is told; others are the server's.
func (s *server) runnerProblem(ctx context.Context, err error) error {
	var limited *forge.RateLimited
	var alone *runners.LeftAlone
	var failed *runners.ForgeError
	switch {
	case errors.As(err, &alone):
		return retryIn(http.StatusServiceUnavailable, alone.Error(), alone.Until.Sub(s.Clock.Now("api", "alone")))
	case errors.Is(err, runners.ErrNoRunner):
		return huma.Error404NotFound(runners.ErrNoRunner.Error())
	case errors.Is(err, runners.ErrNoFile):
		return huma.Error404NotFound(err.Error())
	case errors.Is(err, runners.ErrHandedOut), errors.Is(err, runners.ErrBusy):
		return huma.Error409Conflict(err.Error())
	case errors.Is(err, runners.ErrNotNow):
		return retryLater(http.StatusServiceUnavailable, err.Error())
	case errors.As(err, &limited):
		return retryIn(http.StatusServiceUnavailable, limited.Error(), limited.Until.Sub(s.Clock.Now("api", "limited")))
	case errors.As(err, &failed):
		return retryIn(http.StatusBadGateway, failed.Error(), forgePause)
	}
	return s.problem(ctx, err)
}

func retryIn(status int, message string, wait time.Duration) error {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return huma.ErrorWithHeaders(huma.NewError(status, message), http.Header{"Retry-After": {strconv.Itoa(seconds)}})
}
