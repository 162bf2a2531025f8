package forgetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
)

func jobURL(api string, j *job) string {
	return fmt.Sprintf("%s/repos/%s/actions/jobs/%d", api, j.Repository, j.ID)
}

// both has what the two kinds have in common.
func (f *Forge) both(mux *http.ServeMux) {
	mux.HandleFunc("GET /actions/runners", f.listRunners)
	mux.HandleFunc("GET /actions/runners/{id}", f.withRunner(func(w http.ResponseWriter, _ *http.Request, one *runner) {
		answer(w, http.StatusOK, f.runnerJSON(one))
	}))
	mux.HandleFunc("DELETE /actions/runners/{id}", f.withRunner(f.deleteRunner))
	mux.HandleFunc("GET /actions/jobs/{id}", f.getJob)
	mux.HandleFunc("GET /hooks", f.listHooks)
	mux.HandleFunc("POST /hooks", f.createHook)
	mux.HandleFunc("GET /hooks/{id}", f.withHook(func(w http.ResponseWriter, _ *http.Request, h *hook) { answer(w, 200, f.hookJSON(h)) }))
	mux.HandleFunc("PATCH /hooks/{id}", f.withHook(func(w http.ResponseWriter, r *http.Request, h *hook) {
		if f.setHook(w, r, h) {
			answer(w, http.StatusOK, f.hookJSON(h))
		}
	}))
	mux.HandleFunc("DELETE /hooks/{id}", f.withHook(func(w http.ResponseWriter, _ *http.Request, h *hook) {
		delete(f.hooks, h.id)
		answer(w, http.StatusNoContent, nil)
	}))
}

func (f *Forge) runnersOf(root string) []*runner {
	var all []*runner
	for _, r := range f.runners {
		if r.root == root || root == "admin" {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *runner) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (f *Forge) listRunners(w http.ResponseWriter, r *http.Request) {
	all := f.runnersOf(rootOf(r))
	if name := r.URL.Query().Get("name"); name != "" && !f.opts.Gitea && !f.opts.OldServer {
		all = slices.DeleteFunc(all, func(r *runner) bool { return r.name != name })
	}
	answer(w, http.StatusOK, map[string]any{"total_count": len(all), "runners": page(w, r, all, f.runnerJSON)})
}

func (f *Forge) runnerJSON(r *runner) map[string]any {
	status := "offline"
	if r.online {
		status = "online"
	}
	labels := []map[string]any{}
	for i, l := range r.labels {
		labels = append(labels, map[string]any{"id": i + 1, "name": l, "type": "custom"})
	}
	return map[string]any{
		"id": r.id, "name": r.name, "os": "linux", "status": status, "busy": r.job != nil, "labels": labels, "ephemeral": r.ephemeral,
	}
}

// withRunner finds the runner.
func (f *Forge) withRunner(do func(w http.ResponseWriter, r *http.Request, one *runner)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		one := f.runners[number(r, "id")]
		if one == nil || (one.root != rootOf(r) && rootOf(r) != "admin") {
			fail(w, http.StatusNotFound, "Not Found")
			return
		}
		do(w, r, one)
	}
}

// deleteRunner is refused by GitHub while the runner has a job. Gitea does it, and the job is lost.
func (f *Forge) deleteRunner(w http.ResponseWriter, _ *http.Request, one *runner) {
	if one.job != nil && !f.opts.Gitea {
		f.judge.RefusedBusy++
		fail(w, http.StatusUnprocessableEntity,
			fmt.Sprintf("Bad request - Runner %q is currently running a job and cannot be deleted.", one.name))
		return
	}
	if one.job != nil {
		f.judge.RemovedBusy = append(f.judge.RemovedBusy, one.name)
	}
	f.drop(one)
	answer(w, http.StatusNoContent, nil)
}

func (f *Forge) getJob(w http.ResponseWriter, r *http.Request) {
	j := f.byID[number(r, "id")]
	if j == nil || "repos/"+j.Repository != rootOf(r) {
		fail(w, http.StatusNotFound, "Not Found")
		return
	}
	answer(w, http.StatusOK, f.jobJSON(j))
}

// open are jobs of an entity by their status, as a page of a listing.
func (f *Forge) jobsWhere(root string, keep func(*job) bool) []*job {
	found := lists.Only(f.jobs, func(j *job) bool {
		return f.byID[j.ID] == j && (root == "admin" || covers(root, j.Repository)) && keep(j)
	})
	return found
}

func (f *Forge) jobsJSON(w http.ResponseWriter, r *http.Request, all []*job) {
	answer(w, http.StatusOK, map[string]any{"total_count": len(all), "jobs": page(w, r, all, f.jobJSON)})
}

func (f *Forge) listHooks(w http.ResponseWriter, r *http.Request) {
	var all []*hook
	for _, id := range f.hookIDs() {
		if f.hooks[id].root == rootOf(r) {
			all = append(all, f.hooks[id])
		}
	}
	answer(w, http.StatusOK, page(w, r, all, f.hookJSON))
}

func (f *Forge) createHook(w http.ResponseWriter, r *http.Request) {
	h := &hook{id: f.id(), root: rootOf(r)}
	if !f.setHook(w, r, h) {
		return
	}
	f.hooks[h.id] = h
	answer(w, http.StatusCreated, f.hookJSON(h))
}

// withHook finds the webhook.
func (f *Forge) withHook(do func(w http.ResponseWriter, r *http.Request, h *hook)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := f.hooks[number(r, "id")]
		if h == nil || h.root != rootOf(r) {
			fail(w, http.StatusNotFound, "Not Found")
			return
		}
		do(w, r, h)
	}
}

func (f *Forge) setHook(w http.ResponseWriter, r *http.Request, h *hook) bool {
	var body struct {
		Config struct {
			URL         string `json:"url"`
			Secret      string `json:"secret"`
			ContentType string `json:"content_type"`
		} `json:"config"`
		Events []string `json:"events"`
		Active bool     `json:"active"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Config.URL == "" || body.Config.ContentType != "json" {
		fail(w, http.StatusUnprocessableEntity, "Validation Failed")
		return false
	}
	if !f.opts.Gitea || r.Method == http.MethodPost { // Gitea leaves the secret of a webhook as it is
		h.secret = body.Config.Secret
	}
	h.url, h.events, h.active = body.Config.URL, body.Events, body.Active
	return true
}

func (f *Forge) hookJSON(h *hook) map[string]any {
	last := map[string]any{"code": nil, "status": "unused", "message": nil}
	if n := len(h.sent); n > 0 && h.sent[n-1].status != 0 {
		last = map[string]any{"code": h.sent[n-1].status, "status": "active", "message": http.StatusText(h.sent[n-1].status)}
	}
	return map[string]any{
		"id": h.id, "name": "web", "config": map[string]any{"url": h.url, "content_type": "json", "secret": "********"},
		"events": h.events, "active": h.active, "last_response": last,
	}
}

// github has what GitHub has beyond.
func (f *Forge) github(mux *http.ServeMux) {
	mux.HandleFunc("POST /actions/runners/generate-jitconfig", f.generate)
	mux.HandleFunc("POST /actions/runners/registration-token", f.registrationToken(http.StatusCreated))
	mux.HandleFunc("GET /actions/runners/downloads", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, []map[string]any{{
			"os": "linux", "architecture": "x64", "download_url": f.URL + "/runner.tar.gz", "filename": "runner.tar.gz",
			"sha256_checksum": "00", "temp_download_token": "t",
		}})
	})
	mux.HandleFunc("GET /actions/runner-groups", func(w http.ResponseWriter, r *http.Request) {
		groups := []map[string]any{{"id": 1, "name": "Default"}}
		for name, id := range f.opts.Groups {
			groups = append(groups, map[string]any{"id": id, "name": name})
		}
		same := func(group map[string]any) map[string]any { return group }
		answer(w, http.StatusOK, map[string]any{"total_count": len(groups), "runner_groups": page(w, r, groups, same)})
	})
	mux.HandleFunc("GET /actions/runs", f.listRuns)
	mux.HandleFunc("GET /actions/runs/{id}/jobs", func(w http.ResponseWriter, r *http.Request) {
		f.jobsJSON(w, r, f.jobsWhere(rootOf(r), func(j *job) bool { return j.RunID == number(r, "id") }))
	})
	mux.HandleFunc("POST /hooks/{id}/pings", f.withHook(func(w http.ResponseWriter, _ *http.Request, h *hook) {
		f.deliver(h, "ping", "", []byte(`{"zen":"Keep it simple.","hook_id":1}`))
		answer(w, http.StatusNoContent, nil)
	}))
	mux.HandleFunc("GET /hooks/{id}/deliveries", f.withHook(f.listDeliveries))
	mux.HandleFunc("GET /hooks/{id}/deliveries/{delivery}", f.withHook(f.getDelivery))
	mux.HandleFunc("POST /hooks/{id}/deliveries/{delivery}/attempts", f.withHook(func(w http.ResponseWriter, r *http.Request, h *hook) {
		for _, d := range slices.Clone(h.sent) {
			if d.id == number(r, "delivery") {
				f.redeliver(h, d)
			}
		}
		answer(w, http.StatusAccepted, map[string]any{})
	}))
}

// generate makes a just-in-time configuration.
func (f *Forge) generate(w http.ResponseWriter, r *http.Request) {
	if f.opts.OldServer {
		fail(w, http.StatusNotFound, "Not Found")
		return
	}
	var body struct {
		Name   string   `json:"name"`
		Group  int64    `json:"runner_group_id"`
		Labels []string `json:"labels"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Name == "" || len(body.Labels) == 0 || body.Group == 0 {
		fail(w, http.StatusUnprocessableEntity, "Invalid request")
		return
	}
	for _, one := range f.runnersOf(rootOf(r)) {
		if one.name == body.Name {
			fail(w, http.StatusConflict, "Already exists - A runner with the name "+body.Name+" already exists.")
			return
		}
	}
	one := f.register(rootOf(r), body.Name, body.Labels)
	answer(w, http.StatusCreated, map[string]any{"runner": f.runnerJSON(one), "encoded_jit_config": f.jit(one)})
}

func (f *Forge) registrationToken(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := "registration-" + uuid.NewString()
		f.regTokens[token] = rootOf(r)
		body := map[string]any{"token": token}
		if !f.opts.Gitea {
			body["expires_at"] = f.clock.Now().Add(f.opts.TokenLife).UTC()
		}
		answer(w, status, body)
	}
}

// registerWithToken is what a runner does itself.
func (f *Forge) registerWithToken(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token  string   `json:"token"`
		Name   string   `json:"name"`
		Labels []string `json:"labels"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	defer f.mu.Unlock()
	root, known := f.regTokens[body.Token]
	if !known || body.Name == "" {
		fail(w, http.StatusUnauthorized, "runner registration token not found")
		return
	}
	answer(w, http.StatusOK, config{URL: f.URL, Secret: f.register(root, body.Name, body.Labels).secret})
}

// download is of the runner itself, for whom no token is asked for.
func (f *Forge) download(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.downloads++
	absent := f.opts.Package == "" || f.downloads <= f.opts.PackageAbsent
	f.mu.Unlock()
	if absent {
		fail(w, http.StatusNotFound, "Not Found")
		return
	}
	http.ServeFile(w, r, f.opts.Package)
}

// listRuns: each job is a run of its own.
func (f *Forge) listRuns(w http.ResponseWriter, r *http.Request) {
	status := forge.JobState(r.URL.Query().Get("status"))
	all := f.jobsWhere(rootOf(r), func(j *job) bool { return j.State == status })
	run := func(j *job) map[string]any {
		return map[string]any{"id": j.RunID, "status": j.State, "run_attempt": j.Attempt}
	}
	answer(w, http.StatusOK, map[string]any{"total_count": len(all), "workflow_runs": page(w, r, all, run)})
}

// listDeliveries: newest first, with a cursor.
func (f *Forge) listDeliveries(w http.ResponseWriter, r *http.Request, h *hook) {
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	before, _ := strconv.ParseInt(r.URL.Query().Get("cursor"), 10, 64)
	list := []map[string]any{}
	for _, d := range slices.Backward(h.sent) {
		if before != 0 && d.id >= before {
			continue
		}
		if len(list) == max(1, min(size, 100)) {
			w.Header().Set("Link", fmt.Sprintf(`<http://forge/?cursor=%d>; rel="next"`, list[len(list)-1]["id"]))
			break
		}
		list = append(list, deliveryJSON(d))
	}
	answer(w, http.StatusOK, list)
}

func deliveryJSON(d *delivery) map[string]any {
	return map[string]any{
		"id": d.id, "guid": d.guid, "event": d.event, "action": d.action, "delivered_at": d.at.UTC(), "status_code": d.status,
		"status": http.StatusText(d.status), "redelivery": false,
	}
}

func (f *Forge) getDelivery(w http.ResponseWriter, r *http.Request, h *hook) {
	for _, d := range h.sent {
		if d.id == number(r, "delivery") {
			one := deliveryJSON(d)
			one["request"] = map[string]any{"headers": map[string]string{}, "payload": json.RawMessage(d.body)}
			answer(w, http.StatusOK, one)
			return
		}
	}
	fail(w, http.StatusNotFound, "Not Found")
}

// gitea has what Gitea has beyond.
func (f *Forge) gitea(mux *http.ServeMux) {
	if f.opts.OldServer {
		mux.HandleFunc("GET /actions/runners/registration-token", f.registrationToken(http.StatusOK))
		mux.HandleFunc("GET /runners/registration-token", f.registrationToken(http.StatusOK))
	} else {
		mux.HandleFunc("POST /actions/runners/registration-token", f.registrationToken(http.StatusOK))
		mux.HandleFunc("PATCH /actions/runners/{id}", f.withRunner(f.disable))
	}
	mux.HandleFunc("GET /actions/jobs", func(w http.ResponseWriter, r *http.Request) {
		status := r.URL.Query()["status"]
		f.jobsJSON(w, r, f.jobsWhere(rootOf(r), func(j *job) bool {
			return len(status) == 0 || slices.Contains(status, string(j.State))
		}))
	})
	mux.HandleFunc("POST /hooks/{id}/tests", f.withHook(func(w http.ResponseWriter, _ *http.Request, h *hook) {
		f.deliver(h, "push", "", []byte(`{"ref":"refs/heads/main"}`))
		answer(w, http.StatusNoContent, nil)
	}))
}

func (f *Forge) disable(w http.ResponseWriter, r *http.Request, one *runner) {
	var body struct {
		Disabled bool `json:"disabled"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	one.disabled = body.Disabled
	answer(w, http.StatusOK, f.runnerJSON(one))
}
