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
	ref := refOf(info)
	// What failed may have left something half made, and what an earlier attempt made holds a token that is refused (G7).
	if job.Failures > 0 || info.Agent != nil && job.Attempt > 1 {
		err := w.call(ctx, deleteTimeout, func(ctx context.Context) error { return p.Delete(ctx, ref) })
		if err != nil {
			w.retry(ctx, job, xerrors.Errorf("delete before retry: %w", err))
			return
		}
	}
	req, err := w.request(ctx, job, info)
	if err != nil {
		w.retry(ctx, job, err)
		return
	}
	var inst provider.Instance
	err = w.call(ctx, time.Duration(info.BootTimeoutS)*time.Second, func(ctx context.Context) (err error) {
		inst, err = p.Create(ctx, req)
		return err
	})
	if ctx.Err() != nil {
		w.removeLate(ctx, p, ref)
		w.letGo(ctx, job)
		return
	}
	switch {
	case err == nil && inst.Status == provider.StatusError:
		w.failed(ctx, job, inst.ProviderID, workspaces.Fault{Text: "the provider reports an error: " + inst.Fault})
		return
	case err != nil && (provider.IsPermanent(err) || job.Failures+1 >= maxFailures):
		w.failed(ctx, job, "", workspaces.Fault{Text: err.Error(), Permanent: provider.IsPermanent(err)})
		return
	case err != nil:
		w.retry(ctx, job, err)
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
		err := w.call(ctx, lookTimeout, func(ctx context.Context) (err error) {
			state, err = w.readiness(ctx, p, ref, info)
			return err
		})
		asked := w.Clock.Since(start, "lifecycle", "probe")
		switch {
		case ctx.Err() != nil:
			w.letGo(ctx, job)
			return
		case errors.Is(err, provider.ErrNotFound):
			w.failed(ctx, job, "", workspaces.Fault{Text: "the workspace vanished while it was starting"})
			return
		case err == nil && state.Ready:
			w.ready(ctx, job, p, ref, info.InStateS+asked.Seconds())
			return
		case err == nil && state.Failed:
			w.failed(ctx, job, "", workspaces.Fault{Text: state.Detail, Permanent: true})
			return
		case asked >= bootLeft:
			w.failed(ctx, job, "", workspaces.Fault{Text: "boot timeout: " + detail(state, err), Permanent: err == nil})
			return
		case err != nil:
			w.retry(ctx, job, err)
			return
		case info.Agent != nil: // its report wakes the job
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
func (w *Worker) ready(ctx context.Context, job database.Job, p provider.Provider, ref provider.Ref, bootS float64) {
	var inst provider.Instance // addresses may have come with readiness
	err := w.call(ctx, lookTimeout, func(ctx context.Context) (err error) {
		inst, err = p.Get(ctx, ref)
		return err
	})
	if err != nil {
		w.retry(ctx, job, xerrors.Errorf("look up ready workspace: %w", err))
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
	w.metrics.boot.Observe(bootS)
	w.Nudge(moved.TemplateID)
}

// failed gives a workspace up.
func (w *Worker) failed(ctx context.Context, job database.Job, providerID string, fault workspaces.Fault) {
	fault.Text = text(fault.Text)
	moved, err := w.Writer.Failed(ctx, leaseOf(job), text(providerID), fault)
	if err != nil {
		w.lostOr(ctx, job, "record failure", err)
		return
	}
	w.metrics.failures.WithLabelValues(string(job.Kind), job.Provider).Inc()
	w.log.Warn(ctx, "workspace failed", slog.F("workspace_id", job.WorkspaceID), slog.F("job", job.Kind),
		slog.F("fault", fault.Text), slog.F("permanent", fault.Permanent))
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
	if err != nil {
		w.retry(ctx, job, err)
		return info, nil, false
	}
	return info, p, true
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
	}
}

func (w *Worker) request(
	ctx context.Context, job database.Job, info database.JobForWorkRow,
) (provider.CreateRequest, error) {
	parameters := map[string]string{}
	_ = json.Unmarshal(info.Workspace.Parameters, &parameters) // apply stored an object of strings
	req := provider.CreateRequest{
		Name: info.Workspace.Name,
		Tags: provider.Tags{
			Installation: w.Installation, WorkspaceID: info.Workspace.ID, Incarnation: info.Workspace.Incarnation,
		},
		Organization: info.Organization, Template: info.Template, Preset: info.Preset,
		Spec: info.Spec, Parameters: parameters,
	}
	if info.Agent == nil {
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
