package lifecycle

import (
	"context"
	"time"

	"cdr.dev/slog"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// readiness asks once. A runner is ready when it was also seen at its forge (A3); one that ended before is no runner. It may
// have had a job that was over before any listing, and whose webhooks are late or lost: that is no failure, and is waited for.
func readiness(ctx context.Context, j *work) (provider.Readiness, error) {
	state, err := inside(ctx, j)
	switch info := &j.info; {
	case err != nil || !info.Runner || state.Failed || info.RunnerRegistered:
		return state, err
	case info.RunnerFinished && !info.RunnerIdled:
		return provider.Readiness{Detail: runnerEnded}, nil
	case info.RunnerFinished:
		return provider.Readiness{Failed: true, Detail: "its runner ended before it was seen at the forge"}, nil
	case state.Ready:
		return provider.Readiness{Detail: neverRegistered}, nil
	}
	return state, nil
}

// What only the forge's word is lacking for.
const (
	neverRegistered = "never registered at the forge"
	runnerEnded     = "its runner has ended, and whether it had a job is yet to be heard of its forge"
)

// unregistered is of a runner that is up, and that its forge has not seen. It has a time of its own to register, from when it
// was first found up. What is not seen then is given up, if the forge was listed in full since: else it is not the runner's
// fault (A2, A3).
func (w *Worker) unregistered(ctx context.Context, j *work, detail string) outcome {
	info := &j.info
	limit := time.Duration(info.RunnerRegistrationTimeoutS) * time.Second
	waited := time.Duration(info.RunnerUpS * float64(time.Second))
	switch {
	case !info.RunnerUp:
		err := lifecycledb.New(w.Store).RunnerUp(ctx, lifecycledb.RunnerUpParams{WorkspaceID: j.WorkspaceID, Incarnation: j.Incarnation})
		if err != nil {
			return unrecorded("record that runner is up", err)
		}
		return deferred(detail, min(agentPause(info.InStateS), limit))
	case waited < limit:
		return deferred(detail, min(agentPause(info.InStateS), limit-waited))
	case !info.ForgeListed:
		return deferred("its time to register is over; waiting for a listing of the forge that says so too", agentPauseMost)
	}
	w.metrics.timeouts.WithLabelValues(j.Provider).Inc()
	w.log.Warn(ctx, "runner did not register", slog.F("workspace_id", j.WorkspaceID), slog.F("workspace", info.Workspace.Name),
		slog.F("up_at", info.RunnerUpAt.UTC()), slog.F("waited", waited.Round(time.Second)), slog.F("registration_timeout", limit),
		slog.F("forge_listed_at", info.RunnersListedAt.UTC()), slog.F("fault", detail))
	return w.giveUp(ctx, j, "registration timeout of "+limit.String()+": "+detail, true)
}

// inside asks the provider and the agent. Where there is an agent it is the one to say ready; the provider is still asked, as
// it knows what an agent that never started cannot tell.
func inside(ctx context.Context, j *work) (provider.Readiness, error) {
	info := &j.info
	state, err := j.provider.Ready(ctx, j.ref)
	status := database.AgentStatusExpected
	if info.AgentStatus != nil {
		status = *info.AgentStatus
	}
	switch {
	case err != nil || state.Failed:
		return state, err
	case info.Agent == nil && info.Runner && !info.RunnerRegistered && state.Ready:
		return installs(status, info.AgentMessage), nil
	case info.Agent == nil:
		return state, nil
	}
	switch status {
	case database.AgentStatusReady:
		return provider.Readiness{Ready: true}, nil
	case database.AgentStatusUnhealthy:
		return provider.Readiness{Failed: true, Detail: "the agent reports: " + info.AgentMessage}, nil
	case database.AgentStatusExpected:
		return provider.Readiness{Detail: "waiting for its agent to report"}, nil
	case database.AgentStatusSilent:
		return provider.Readiness{Detail: "waiting for its agent to be heard of again"}, nil
	default:
		return provider.Readiness{Detail: "waiting for its agent to report that it is ready"}, nil
	}
}

// installs is of a runner without an agent, whose machine runs: user data that was written for GARM says how it gets on. What
// says nothing is taken to be up.
func installs(status database.AgentStatus, message string) provider.Readiness {
	switch status {
	case database.AgentStatusUnhealthy:
		return provider.Readiness{Failed: true, Detail: "its user data reports: " + message}
	case database.AgentStatusStarting:
		return provider.Readiness{Detail: "its user data reports: " + message}
	default:
		return provider.Readiness{Ready: true}
	}
}

// recovery is how many of its heartbeat time-outs a silent agent has to be heard of again.
const recovery = 5

// bootTimeout is how long a workspace may be starting, in seconds; a runner, until it is up. One that was ready before has less to do.
func bootTimeout(info lifecycledb.JobForWorkRow) float64 {
	limit := info.BootTimeoutS
	if info.AgentStatus != nil && *info.AgentStatus == database.AgentStatusSilent {
		limit = min(limit, recovery*info.HeartbeatTimeoutS)
	}
	return float64(limit)
}

const agentPauseMost = 5 * time.Second

// agentPause is how long the provider is not asked again about a workspace whose agent is awaited: a tenth of the time
// that it has been starting for, between 1 s and 5 s.
func agentPause(inStateS float64) time.Duration {
	return min(max(probeMost, time.Duration(inStateS*float64(time.Second))/10), agentPauseMost)
}
