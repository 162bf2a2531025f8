package forgetest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

type hook struct {
	id     int64
	root   string
	url    string
	secret string
	events []string
	active bool
	sent   []*delivery // in the order in which they were made
}

type delivery struct {
	id     int64
	guid   string
	event  string
	action string
	at     time.Time
	status int
	body   []byte
}

// AddHook makes a webhook as a person does in the settings of what has no API for it: of an enterprise.
func (f *Forge) AddHook(root, url, secret string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &hook{id: f.id(), root: root, url: url, secret: secret, events: []string{"workflow_job"}, active: true}
	f.hooks[h.id] = h
}

// tell makes a delivery of a job's state to each webhook that it is of. The forge is locked.
func (f *Forge) tell(j *job) {
	body, err := json.Marshal(map[string]any{
		"action": string(j.State), "workflow_job": f.jobJSON(j), "repository": map[string]any{"full_name": j.Repository},
		"sender": map[string]any{"login": "ada"},
	})
	if err != nil {
		return
	}
	for _, id := range f.hookIDs() {
		h := f.hooks[id]
		if h.active && covers(h.root, j.Repository) && slices.Contains(h.events, "workflow_job") {
			f.deliver(h, "workflow_job", string(j.State), body)
		}
	}
}

func (f *Forge) hookIDs() []int64 { return slices.Sorted(maps.Keys(f.hooks)) }

// deliver sends one, as chance has it. The forge is locked.
func (f *Forge) deliver(h *hook, event, action string, body []byte) {
	d := &delivery{id: f.id(), guid: uuid.NewString(), event: event, action: action, at: f.clock.Now(), body: body}
	h.sent = append(h.sent, d)
	if f.chance(f.faults.Lose) {
		d.status = http.StatusBadGateway
		return
	}
	times, delay := 1, time.Duration(0)
	if f.chance(f.faults.Repeat) {
		times = 2
	}
	if f.chance(f.faults.Delay) && f.faults.DelayBy > 0 {
		delay = time.Duration(f.random.Int64N(int64(f.faults.DelayBy)))
	}
	address, secret := h.url, h.secret
	for range times {
		f.sending.Go(func() {
			if f.wait(delay) {
				f.send(address, secret, d)
			}
		})
	}
}

// wait is false when the forge ends first.
func (f *Forge) wait(d time.Duration) bool {
	if d <= 0 {
		return f.ctx.Err() == nil
	}
	timer := f.clock.NewTimer(d, "forgetest", "delay")
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// Sign is the signature of a body.
func Sign(secret string, body []byte) string {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write(body)
	return hex.EncodeToString(sum.Sum(nil))
}

// Header is that of a delivery.
func (f *Forge) header(secret string, d *delivery) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	if f.opts.Gitea {
		h.Set("X-Gitea-Delivery", d.guid)
		h.Set("X-Gitea-Event", d.event)
		h.Set("X-Gitea-Signature", Sign(secret, d.body))
	} else {
		h.Set("X-GitHub-Delivery", d.guid)
		h.Set("X-GitHub-Event", d.event)
	}
	h.Set("X-Hub-Signature-256", "sha256="+Sign(secret, d.body))
	return h
}

// send makes the request, once: what fails is not tried again.
func (f *Forge) send(address, secret string, d *delivery) {
	select {
	case f.senders <- struct{}{}:
		defer func() { <-f.senders }()
	case <-f.ctx.Done():
		return
	}
	req, err := http.NewRequestWithContext(f.ctx, http.MethodPost, address, bytes.NewReader(d.body))
	if err != nil {
		return
	}
	req.Header = f.header(secret, d)
	status := http.StatusBadGateway
	client := http.Client{Timeout: 10 * time.Second} // as GitHub's
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close()
		status = resp.StatusCode
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d.status = status
}

// Redeliver sends a delivery again, with its id.
func (f *Forge) redeliver(h *hook, d *delivery) {
	again := &delivery{id: f.id(), guid: d.guid, event: d.event, action: d.action, at: f.clock.Now(), body: d.body}
	h.sent = append(h.sent, again)
	address, secret := h.url, h.secret
	f.sending.Go(func() { f.send(address, secret, again) })
}

// Deliveries are how many were made, and how many of them were answered with 2xx.
func (f *Forge) Deliveries() (made, well int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hooks {
		for _, d := range h.sent {
			made++
			if d.status/100 == 2 {
				well++
			}
		}
	}
	return made, well
}

// jobJSON is a job as webhooks and the API have it. The forge is locked.
func (f *Forge) jobJSON(j *job) map[string]any {
	unset := any(nil)
	if f.opts.Gitea {
		unset = time.Unix(0, 0).UTC()
	}
	at := func(t time.Time) any {
		if t.IsZero() {
			return unset
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	api := f.URL + "/api/v1"
	if !f.opts.Gitea {
		api = f.API
	}
	one := map[string]any{
		"id": j.ID, "run_id": j.RunID, "run_attempt": j.Attempt, "name": "test", "labels": j.Labels, "status": string(j.State),
		"html_url": f.URL + "/" + j.Repository + "/jobs", "url": jobURL(api, j), "created_at": at(j.QueuedAt),
		"started_at": at(j.StartedAt), "completed_at": at(j.CompletedAt), "steps": []any{},
	}
	if j.State == forge.Completed {
		one["conclusion"] = j.Conclusion
	}
	if j.RunnerID != 0 {
		one["runner_id"], one["runner_name"] = j.RunnerID, j.Runner
	}
	if f.opts.Gitea {
		if j.RunnerID == 0 {
			one["run_attempt"] = j.Attempt - 1 // counted when a runner takes it
		}
	} else {
		one["workflow_name"] = "CI"
		if j.StartedAt.IsZero() {
			one["started_at"] = at(j.QueuedAt)
		}
	}
	return one
}
