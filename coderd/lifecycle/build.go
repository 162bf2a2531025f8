package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	// maxFailures is how often a provider may fail to create one workspace before the workspace is given up.
	maxFailures = 5
	// probeEvery is the pause between questions for readiness at first; it grows to probeMost.
	probeEvery = 50 * time.Millisecond
	probeMost  = time.Second
	// probeHold is how long a workspace that is not ready yet keeps its slot, before it makes room and is asked again
	// after probeMost.
	probeHold = 10 * time.Second
	// removeTimeout bounds the removal of what was created too late.
	removeTimeout = 10 * time.Second
)

// create makes the resource: provisioning -> starting, or a retry, or the end of it.
func (w *Worker) create(ctx context.Context, job database.Job) {
	info, p, ok := w.load(ctx, job)
	if !ok {
		return
	}
	w.giveWay(ctx, job, p)
	ref := refOf(info)
	// What failed may have left something half made, and what an earlier attempt made holds a token that is refused (G7).
	if info.Runner { // so that there is a row before anything can register
		err := w.Store.ExpectRunner(ctx, database.ExpectRunnerParams{WorkspaceID: job.WorkspaceID, Incarnation: job.Incarnation})
		if err != nil {
			w.postpone(ctx, job, err)
			return
		}
	}
	token := w.wantsToken(p, info)
	if (job.Failures > 0 || token && job.Attempt > 1) && mayExist(p, ref) {
		err := w.call(ctx, w.Timeouts.Delete, func(ctx context.Context) error { return p.Delete(ctx, ref) })
		if ctx.Err() != nil {
			w.letGo(ctx, job)
			w.replaceTaken(ctx, p, ref)
			return
		}
		if err != nil {
			w.refused(ctx, job, info, p, xerrors.Errorf("delete before retry: %w", err))
			return
		}
		if err := w.giveBack(ctx, job, ref, givenBack{proven: true, failed: job.Failures > 0}); err != nil {
			w.postpone(ctx, job, err)
			return
		}
	}
	req, err := w.request(ctx, job, info, token)
	if _, takes := provider.As[provider.RunnerTaker](p); err == nil && takes && info.Runner && w.Runner != nil {
		req.Runner, err = w.Runner(ctx, job.WorkspaceID, job.Incarnation)
	}
	if err != nil { // our own database or replica, or the forge, and no failure of the provider's
		w.postpone(ctx, job, err)
		return
	}
	var inst provider.Instance
	for {
		if req.Machine, err = w.reserve(ctx, job, p); err != nil {
			w.postpone(ctx, job, err)
			return
		}
		ref.Machine = req.Machine
		err = w.call(ctx, time.Duration(info.BootTimeoutS)*time.Second, func(ctx context.Context) (err error) {
			inst, err = p.Create(ctx, req)
			return err
		})
		if ctx.Err() != nil || !errors.Is(err, provider.ErrMachineTaken) {
			break
		}
		if err := w.giveBack(ctx, job, ref, givenBack{why: err.Error()}); err != nil {
			w.postpone(ctx, job, err)
			return
		}
	}
	if ctx.Err() != nil {
		w.removeLate(ctx, p, ref)
		w.letGo(ctx, job)
		return
	}
	switch {
	case err == nil && inst.Status == provider.StatusError:
		w.failed(ctx, job, info, p, inst.ProviderID, "the provider reports an error: "+inst.Fault, false)
		return
	case err != nil:
		w.refused(ctx, job, info, p, err)
		return
	}
	_, err = w.Writer.Created(ctx, leaseOf(job), facts(inst))
	if err != nil {
		if errors.Is(err, workspaces.ErrLost) {
			w.removeLate(ctx, p, ref)
		}
		w.lostOr(ctx, job, "record creation", err)
		return
	}
	signal(w.probes.wake)
}

// refused counts an error of the provider against the create: it is tried again, or given up. Every error counts, also that
// the provider can't be made, or won't delete what may be left: else nobody would ever hear of credentials that expired (C8).
func (w *Worker) refused(
	ctx context.Context, job database.Job, info database.JobForWorkRow, p provider.Provider, err error,
) {
	if ctx.Err() == nil && (provider.IsPermanent(err) || job.Failures+1 >= maxFailures) {
		w.failed(ctx, job, info, p, "", err.Error(), provider.IsPermanent(err))
		return
	}
	w.retry(ctx, job, err)
}

// probe asks for readiness until there is an answer: starting -> ready, or -> draining.
func (w *Worker) probe(ctx context.Context, job database.Job) {
	info, p, ok := w.load(ctx, job)
	if !ok {
		return
	}
	ref := refOf(info)
	bootLeft := time.Duration((bootTimeout(info) - info.InStateS) * float64(time.Second))
	start := w.Clock.Now("lifecycle", "probe")
	for pause := probeEvery; ; pause = min(pause*3/2, probeMost) {
		var state provider.Readiness
		err := w.call(ctx, w.Timeouts.Look, func(ctx context.Context) (err error) {
			state, err = w.readiness(ctx, p, ref, info)
			return err
		})
		asked := w.Clock.Since(start, "lifecycle", "probe")
		switch {
		case ctx.Err() != nil:
			w.letGo(ctx, job)
			return
		case errors.Is(err, provider.ErrNotFound):
			w.unready(ctx, job, info, p, "the workspace vanished while it was starting", false)
			return
		case err == nil && state.Ready:
			w.ready(ctx, job, info, p, info.InStateS+asked.Seconds())
			return
		case err == nil && state.Failed:
			w.unready(ctx, job, info, p, state.Detail, true)
			return
		case asked >= bootLeft && err == nil && w.unobserved(info):
			w.deferJob(ctx, job, "its time is over; waiting for a listing of the forge that says so too", agentPauseMost)
			return
		case asked >= bootLeft:
			w.metrics.timeouts.WithLabelValues(job.Provider).Inc()
			w.unready(ctx, job, info, p, "boot timeout: "+detail(state, err), err == nil)
			return
		case err != nil:
			w.retry(ctx, job, err)
			return
		case info.Agent != nil || info.Runner: // its report, or that it was seen at the forge, wakes the job
			w.deferJob(ctx, job, detail(state, nil), agentPause(info.InStateS))
			return
		case asked >= probeHold:
			w.deferJob(ctx, job, detail(state, nil), probeMost)
			return
		}
		if !w.sleep(ctx, pause) {
			w.letGo(ctx, job)
			return
		}
	}
}

// ready records readiness, bootS seconds after creation, and gives the workspace to whoever waits.
func (w *Worker) ready(
	ctx context.Context, job database.Job, info database.JobForWorkRow, p provider.Provider, bootS float64,
) {
	var inst provider.Instance // addresses may have come with readiness
	err := w.call(ctx, w.Timeouts.Look, func(ctx context.Context) (err error) {
		inst, err = p.Get(ctx, refOf(info))
		return err
	})
	if err != nil {
		w.retry(ctx, job, xerrors.Errorf("look up ready workspace: %w", err))
		return
	}
	if info.Workspace.State == database.WorkspaceStateClaimed {
		w.claimStarted(ctx, job, inst)
		return
	}
	moved, bound, err := w.Writer.Ready(ctx, leaseOf(job), facts(inst), "ready")
	if err != nil {
		w.lostOr(ctx, job, "record readiness", err)
		return
	}
	// Who began to wait while that transaction was open has not seen it, nor it them.
	late, err := w.Writer.BindOldest(ctx, moved.PresetID)
	if err != nil {
		w.log.Warn(ctx, "bind waiting claims", slog.Error(err))
	}
	if bound = append(bound, late...); len(bound) > 0 {
		w.Bound(bound)
	}
	if info.Workspace.ReadyAt == nil { // else it was only silent, or in standby
		w.metrics.boot.Observe(bootS)
	}
	w.Nudge(moved.TemplateID)
}

// unready gives up on waiting for readiness. What was claimed out of standby is left to its owner.
func (w *Worker) unready(
	ctx context.Context, job database.Job, info database.JobForWorkRow, p provider.Provider, fault string, permanent bool,
) {
	if info.Workspace.State == database.WorkspaceStateClaimed {
		w.claimNotStarted(ctx, job, info, fault)
		return
	}
	w.failed(ctx, job, info, p, "", fault, permanent)
}

// failed gives a workspace up, and keeps what there is to be seen of it where its template says so. It is permanent if
// trying again will not help, as far as one can tell (C8). p may be nil.
func (w *Worker) failed(
	ctx context.Context, job database.Job, info database.JobForWorkRow, p provider.Provider, providerID, fault string,
	permanent bool,
) {
	f := workspaces.Failure{ProviderID: text(providerID), Fault: text(fault), Permanent: permanent}
	if info.KeepFailures > 0 {
		ref := refOf(info)
		if ref.ProviderID == "" {
			ref.ProviderID = providerID
		}
		f.PresetID, f.Log = info.Workspace.PresetID, w.lastOutput(ctx, p, ref)
	}
	moved, kept, err := w.Writer.Failed(ctx, leaseOf(job), f)
	if err != nil {
		w.lostOr(ctx, job, "record failure", err)
		return
	}
	w.metrics.failures.WithLabelValues(string(job.Kind), job.Provider).Inc()
	w.log.Warn(ctx, "workspace failed", slog.F("workspace_id", job.WorkspaceID), slog.F("job", job.Kind),
		slog.F("fault", f.Fault), slog.F("permanent", permanent), slog.F("quarantined", kept))
	signal(w.retires.wake)
	w.Nudge(moved.TemplateID)
}

// load reads what the job is about and finds its provider. If it can't, the job is dealt with: a database that does not
// answer is nobody's failure, a provider that can't be made is one.
func (w *Worker) load(ctx context.Context, job database.Job) (database.JobForWorkRow, provider.Provider, bool) {
	info, err := w.Store.JobForWork(ctx, job.WorkspaceID)
	if err != nil {
		w.lostOr(ctx, job, "read workspace", err)
		return info, nil, false
	}
	p, err := w.Providers.Get(job.Provider)
	if err == nil {
		return info, p, true
	}
	switch last := job.Failures+1 >= maxFailures; {
	case job.Kind == database.JobKindCreate:
		w.refused(ctx, job, info, nil, err)
	case job.Kind == database.JobKindReset && last && ctx.Err() == nil:
		w.resetFailed(ctx, job, err)
	case job.Kind == database.JobKindStart && last && ctx.Err() == nil:
		w.notStarted(ctx, job, info, nil, err, false)
	default:
		w.retry(ctx, job, err)
	}
	return info, nil, false
}

// removeLate removes what a create made after its workspace had been deleted, such as that of a replica that froze and
// woke. A workspace that lives on is somebody else's to see to. What this misses the sweep of orphans finds (I4).
func (w *Worker) removeLate(ctx context.Context, p provider.Provider, ref provider.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	now, err := w.Store.WorkspaceState(ctx, ref.WorkspaceID)
	if err == nil && now.State == database.WorkspaceStateDeleted {
		err = p.Delete(ctx, ref)
	}
	if err != nil {
		w.log.Warn(ctx, "remove what was created too late", slog.F("workspace", ref.Name), slog.Error(err))
	}
}

// refOf names the resource, and the workspace it must be tagged with: another's is never touched.
func refOf(info database.JobForWorkRow) provider.Ref {
	return provider.Ref{
		Name: info.Workspace.Name, ProviderID: info.Workspace.ProviderID, WorkspaceID: info.Workspace.ID,
		Machine: info.Machine,
	}
}

// wantsToken says whether what is created is handed an instance token.
func (w *Worker) wantsToken(p provider.Provider, info database.JobForWorkRow) bool {
	_, takes := provider.As[provider.TokenTaker](p)
	return info.Agent != nil || takes && w.Callback != nil
}

func (w *Worker) request(
	ctx context.Context, job database.Job, info database.JobForWorkRow, token bool,
) (provider.CreateRequest, error) {
	parameters := map[string]string{}
	_ = json.Unmarshal(info.Workspace.Parameters, &parameters) // apply stored an object of strings
	req := provider.CreateRequest{
		Name: info.Workspace.Name, Machine: info.Machine,
		Tags: provider.Tags{
			Installation: w.Installation, WorkspaceID: info.Workspace.ID, Incarnation: info.Workspace.Incarnation,
		},
		Organization: info.Organization, Template: info.Template, Preset: info.Preset,
		Spec: info.Spec, Parameters: parameters,
	}
	if !token {
		return req, nil
	}
	if w.Callback == nil {
		return req, xerrors.New("make token of agent: this replica serves no agents")
	}
	var err error
	if req.Callback, err = w.Callback(ctx, job, info.Agent); err != nil {
		return req, xerrors.Errorf("make token of agent: %w", err)
	}
	return req, nil
}

func detail(state provider.Readiness, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case state.Detail != "":
		return state.Detail
	}
	return "not ready yet"
}
