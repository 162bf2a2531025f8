package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
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
)

// create makes the resource: provisioning -> starting, or a retry, or the end of it.
func (w *Worker) create(ctx context.Context, j *work) outcome {
	begun := w.Clock.Now("lifecycle", "create")
	if o, ok := w.load(ctx, j); !ok {
		return o
	}
	w.giveWay(ctx, j)
	if j.info.Runner { // so that there is a row before anything can register
		expect := lifecycledb.ExpectRunnerParams{WorkspaceID: j.WorkspaceID, Incarnation: j.Incarnation}
		if p, ok := provider.As[provider.RunnerNamer](j.provider); ok {
			expect.Name = p.RunnerName(j.ref.Name, j.WorkspaceID)
		}
		err := lifecycledb.New(w.Store).ExpectRunner(ctx, expect)
		if err != nil {
			return postponed(err)
		}
	}
	// What failed may have left something half made, and what an earlier attempt made holds a token that is refused (G7).
	token := w.wantsToken(j)
	if (j.Failures > 0 || token && j.Attempt > 1) && j.mayExist() {
		err := w.call(ctx, w.Timeouts.Delete, func(ctx context.Context) error { return j.provider.Delete(ctx, j.ref) })
		if ctx.Err() != nil {
			o := requeued()
			o.then = func() { w.replaceTaken(ctx, j) }
			return o
		}
		if err != nil {
			return w.refused(ctx, j, xerrors.Errorf("delete before retry: %w", err))
		}
		if err := w.freeMachine(ctx, j, freed{proven: true, failed: j.Failures > 0}); err != nil {
			return postponed(err)
		}
	}
	req, err := w.request(ctx, j, token)
	if _, takes := provider.As[provider.RunnerTaker](j.provider); err == nil && takes && j.info.Runner && w.Runner != nil {
		req.Runner, err = w.Runner(ctx, j.WorkspaceID, j.Incarnation)
	}
	if err != nil { // our own database or replica, or the forge, and no failure of the provider's
		return postponed(err)
	}
	var inst provider.Instance
	for {
		if req.Machine, err = w.reserve(ctx, j); err != nil {
			return postponed(err)
		}
		j.ref.Machine = req.Machine
		inst, err = w.make(ctx, j, req, j.provider.Create)
		if ctx.Err() != nil || !errors.Is(err, provider.ErrMachineTaken) {
			break
		}
		if err := w.freeMachine(ctx, j, freed{why: err.Error()}); err != nil {
			return postponed(err)
		}
	}
	if err != nil {
		return w.refused(ctx, j, err)
	}
	o := w.recordMade(ctx, j, "record creation", inst, w.Writer.Created)
	if o.end == isDone {
		w.succeeded(ctx, j, "workspace created", begun, slog.F("provider_id", inst.ProviderID))
	}
	return o
}

// make calls what makes a workspace, or makes it like new. What it made after the lease had ended is removed.
func (w *Worker) make(ctx context.Context, j *work, req provider.CreateRequest,
	do func(context.Context, provider.CreateRequest) (provider.Instance, error),
) (inst provider.Instance, err error) {
	err = w.call(ctx, time.Duration(j.info.BootTimeoutS)*time.Second, func(ctx context.Context) error {
		inst, err = do(ctx, req)
		return err
	})
	if ctx.Err() != nil {
		w.removeLate(ctx, j)
		return inst, ctx.Err()
	}
	if err == nil && inst.Status == provider.StatusError {
		j.made = inst.ProviderID
		err = &reportedError{inst.Fault}
	}
	return inst, err
}

// reportedError is that of an instance that was made and is in error: making it again would not help.
type reportedError struct{ fault string }

func (e *reportedError) Error() string { return "the provider reports an error: " + e.fault }

// recordMade records what was made, or removes it if the workspace was deleted meanwhile.
func (w *Worker) recordMade(ctx context.Context, j *work, what string, inst provider.Instance,
	record func(context.Context, workspaces.Lease, workspaces.Facts) (workspaces.Moved, error),
) outcome {
	_, err := record(ctx, j.held(), facts(inst))
	if errors.Is(err, workspaces.ErrLost) {
		w.removeLate(ctx, j)
	}
	if err != nil {
		return unrecorded(what, err)
	}
	return done(w.probes)
}

// refused counts an error of the provider against a create, a reset or a start: it is tried again, or given up. Every error
// counts, also that the provider can't be made, or won't delete what may be left: else nobody would ever hear of
// credentials that expired (C8).
func (w *Worker) refused(ctx context.Context, j *work, err error) outcome {
	if _, ours := errors.AsType[*provider.StateError](err); ours {
		return postponed(err)
	}
	var reported *reportedError
	final := provider.IsPermanent(err) || j.Failures+1 >= maxFailures || errors.As(err, &reported) ||
		j.Kind != database.JobKindCreate && errors.Is(err, provider.ErrNotFound)
	if ctx.Err() != nil || !final {
		return retried(err)
	}
	return w.giveUp(ctx, j, err.Error(), provider.IsPermanent(err))
}

// probe asks for readiness until there is an answer: starting -> ready, or -> draining.
func (w *Worker) probe(ctx context.Context, j *work) outcome {
	if o, ok := w.load(ctx, j); !ok {
		return o
	}
	bootLeft := time.Duration((bootTimeout(j.info) - j.info.InStateS) * float64(time.Second))
	start := w.Clock.Now("lifecycle", "probe")
	for pause := probeEvery; ; pause = min(pause*3/2, probeMost) {
		var state provider.Readiness
		err := w.call(ctx, w.Timeouts.Look, func(ctx context.Context) (err error) {
			state, err = readiness(ctx, j)
			return err
		})
		asked := w.Clock.Since(start, "lifecycle", "probe")
		switch {
		case ctx.Err() != nil:
			return requeued()
		case errors.Is(err, provider.ErrNotFound):
			return w.giveUp(ctx, j, "the workspace vanished while it was starting", false)
		case err == nil && state.Ready:
			return w.ready(ctx, j, j.info.InStateS+asked.Seconds())
		case err == nil && state.Failed:
			return w.giveUp(ctx, j, state.Detail, !state.Transient)
		case err == nil && (state.Detail == neverRegistered || state.Detail == runnerEnded):
			return w.unregistered(ctx, j, state.Detail)
		case asked >= bootLeft:
			w.metrics.timeouts.WithLabelValues(j.Provider).Inc()
			return w.giveUp(ctx, j, "boot timeout: "+detail(state, err), err == nil)
		case err != nil:
			return retried(err)
		case j.info.Agent != nil || j.info.Runner: // its report, or that it was seen at the forge, wakes the job
			return deferred(detail(state, nil), agentPause(j.info.InStateS))
		case asked >= probeHold:
			return deferred(detail(state, nil), probeMost)
		}
		if !w.sleep(ctx, pause) {
			return requeued()
		}
	}
}

// ready records readiness, bootS seconds after creation, and gives the workspace to whoever waits.
func (w *Worker) ready(ctx context.Context, j *work, bootS float64) outcome {
	var inst provider.Instance // addresses may have come with readiness
	err := w.call(ctx, w.Timeouts.Look, func(ctx context.Context) (err error) {
		inst, err = j.provider.Get(ctx, j.ref)
		return err
	})
	if err != nil {
		return retried(xerrors.Errorf("look up ready workspace: %w", err))
	}
	if j.info.Workspace.State == database.WorkspaceStateClaimed {
		return w.claimStarted(ctx, j, inst)
	}
	moved, bound, err := w.Writer.Ready(ctx, j.held(), facts(inst), "ready")
	if err != nil {
		return unrecorded("record readiness", err)
	}
	// Who began to wait while that transaction was open has not seen it, nor it them.
	late, err := w.Writer.BindOldest(ctx, moved.PresetID)
	if err != nil {
		w.log.Warn(ctx, "bind waiting claims", slog.Error(err))
	}
	if bound = append(bound, late...); len(bound) > 0 {
		for _, b := range bound {
			w.Hints.Bound(b.ClaimID, b.TemplateID)
		}
	}
	if j.info.Workspace.ReadyAt == nil { // else it was only silent, or in standby
		w.metrics.boot.Observe(bootS)
	}
	return done(nil, moved.TemplateID)
}

// giveUp ends a job that will not succeed: a prebuild failed, one that was released is not used again, and one that is
// claimed is left to its owner with the fault. It is permanent if trying again will not help, as far as one can tell (C8).
func (w *Worker) giveUp(ctx context.Context, j *work, fault string, permanent bool) outcome {
	switch j.Kind {
	case database.JobKindReset:
		return w.resetFailed(ctx, j, fault)
	case database.JobKindStart:
		fault = "start: " + fault
	case database.JobKindHandover:
		return w.notHandedOver(ctx, j, fault)
	default:
	}
	if j.info.Workspace.State == database.WorkspaceStateClaimed {
		return w.claimNotStarted(ctx, j, fault)
	}
	return w.failed(ctx, j, fault, permanent)
}

// failed gives a workspace up, and keeps what there is to be seen of it where its template says so.
func (w *Worker) failed(ctx context.Context, j *work, fault string, permanent bool) outcome {
	f := workspaces.Failure{ProviderID: text(j.made), Fault: text(fault), Permanent: permanent}
	if j.info.KeepFailures > 0 {
		f.PresetID, f.Log = j.info.Workspace.PresetID, w.lastOutput(ctx, j)
	}
	moved, kept, err := w.Writer.Failed(ctx, j.held(), f)
	if err != nil {
		return unrecorded("record failure", err)
	}
	w.metrics.failures.WithLabelValues(string(j.Kind), j.Provider).Inc()
	w.log.Warn(ctx, "workspace failed", slog.F("workspace_id", j.WorkspaceID), slog.F("job", j.Kind),
		slog.F("fault", printable.Headline(f.Fault)), slog.F("permanent", permanent), slog.F("quarantined", kept))
	return done(w.retires, moved.TemplateID)
}

// read reads what the job is about. A database that does not answer is nobody's failure.
func (w *Worker) read(ctx context.Context, j *work) error {
	var err error
	j.info, err = lifecycledb.New(w.Store).JobForWork(ctx, j.WorkspaceID)
	j.ref = provider.Ref{
		Name: j.info.Workspace.Name, ProviderID: j.info.Workspace.ProviderID, WorkspaceID: j.info.Workspace.ID,
		Machine: j.info.Machine,
	}
	return err
}

// load reads what the job is about and finds its provider. If it can't, it returns what comes of that: a provider that
// can't be made is a failure of its own.
func (w *Worker) load(ctx context.Context, j *work) (outcome, bool) {
	err := w.read(ctx, j)
	if err != nil {
		return unrecorded("read workspace", err), false
	}
	if err = w.find(j); err == nil {
		return outcome{}, true
	}
	switch j.Kind {
	case database.JobKindCreate, database.JobKindReset, database.JobKindStart, database.JobKindHandover:
		return w.refused(ctx, j, err), false
	default:
		return retried(err), false
	}
}

// find finds the job's provider. Where that takes states, each call that needs one is a run of this attempt.
func (w *Worker) find(j *work) error {
	p, err := w.Providers.Get(j.Provider)
	if err == nil && w.State != nil {
		p = provider.WithState(p, func(ctx context.Context, _ string, _ uuid.UUID, _ int32) (provider.State, error) {
			return w.State(ctx, j.Job)
		})
	}
	j.provider = p
	return err
}

// wantsToken says whether what is created is handed an instance token.
func (w *Worker) wantsToken(j *work) bool {
	_, takes := provider.As[provider.TokenTaker](j.provider)
	return j.info.Agent != nil || takes && w.Callback != nil
}

func (w *Worker) request(ctx context.Context, j *work, token bool) (provider.CreateRequest, error) {
	info := &j.info
	parameters := map[string]string{}
	_ = json.Unmarshal(info.Workspace.Parameters, &parameters) // apply stored an object of strings
	req := provider.CreateRequest{
		Name: info.Workspace.Name, Machine: info.Machine,
		Tags: provider.Tags{
			Installation: w.Installation, WorkspaceID: info.Workspace.ID, Incarnation: info.Workspace.Incarnation,
		},
		Organization: info.Organization, Template: info.Template, Preset: info.Preset,
		Spec: info.Spec, Parameters: parameters, Defaults: info.Defaults,
	}
	if !token {
		return req, nil
	}
	if w.Callback == nil {
		return req, xerrors.New("make token of agent: this replica serves no agents")
	}
	var err error
	if req.Callback, err = w.Callback(ctx, j.Job, info.Agent); err != nil {
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
