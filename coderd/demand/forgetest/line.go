package forgetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/xerrors"
)

// config is how a runner connects.
type config struct {
	URL    string `json:"url"`
	Secret string `json:"secret"`
}

// The files that a just-in-time configuration is made of, behind base64, as GitHub's. The last has the config.
const (
	fileSettings    = ".runner"
	fileCredentials = ".credentials"
	fileParameters  = ".credentials_rsaparams"
)

// order is a line that a runner reads: first its job, then that it is over.
type order struct {
	Job  int64 `json:"job,omitempty"`
	Done bool  `json:"done,omitempty"`
}

func (f *Forge) jit(r *runner) string {
	settings, _ := json.Marshal(map[string]any{"agentId": r.id, "agentName": r.name, "serverUrl": f.URL, "ephemeral": true})
	parameters, _ := json.Marshal(config{URL: f.URL, Secret: r.secret})
	text, _ := json.Marshal(map[string][]byte{
		fileSettings: settings, fileCredentials: fmt.Appendf(nil, `{"scheme": "OAuth", "of": %d}`, r.id), fileParameters: parameters,
	})
	return base64.StdEncoding.EncodeToString(text)
}

// run is the one request of a runner: it waits for a job, is told of it, and again when it is over.
func (f *Forge) run(w http.ResponseWriter, req *http.Request) {
	r, hand := f.connect(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))
	if r == nil {
		http.Error(w, "no such runner", http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusOK)
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	var j *job
	select {
	case j = <-hand:
	case <-req.Context().Done():
		j = f.disconnect(r, hand)
	}
	if j == nil { // it was removed, or has left
		return
	}
	_ = json.NewEncoder(w).Encode(order{Job: j.ID})
	flush()
	timer := f.clock.NewTimer(j.duration, "forgetest", "work")
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-j.end:
	case <-req.Context().Done():
		f.killed(r, j)
		return
	}
	f.finish(r, j, "success")
	_ = json.NewEncoder(w).Encode(order{Done: true})
	flush()
}

// connect takes a runner in as idle.
func (f *Forge) connect(secret string) (*runner, chan *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.runners {
		if r.secret == secret && !r.online {
			hand := make(chan *job, 1)
			r.hand, r.online = hand, true
			f.dispatch()
			return r, hand
		}
	}
	return nil, nil
}

// disconnect is of a runner that has left. It may have been given a job in that moment.
func (f *Forge) disconnect(r *runner, hand chan *job) *job {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.online, r.hand = false, nil
	select {
	case j := <-hand:
		return j
	default:
		return nil
	}
}

func (f *Forge) finish(r *runner, j *job, conclusion string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.job = nil
	f.complete(j, conclusion)
	f.drop(r)
}

func (f *Forge) killed(r *runner, j *job) {
	if f.ctx.Err() != nil {
		return // it is the forge that ends
	}
	f.mu.Lock()
	f.judge.KilledBusy = append(f.judge.KilledBusy, r.name)
	f.mu.Unlock()
	f.finish(r, j, "failure")
}

// Runner is a runner's program: it connects with the configuration in the file, does one job, and ends well. A runner that is
// not known (any more) is an error.
func Runner(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return xerrors.Errorf("read configuration: %w", err)
	}
	raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		return xerrors.New("the configuration is not base64")
	}
	files := map[string][]byte{}
	if err := json.Unmarshal(raw, &files); err != nil {
		return xerrors.New("the configuration is not JSON")
	}
	return runnerOf(ctx, files)
}

// RunnerIn is Runner with the files of its configuration in a directory.
func RunnerIn(ctx context.Context, dir string) error {
	files := map[string][]byte{}
	for _, name := range []string{fileSettings, fileCredentials, fileParameters} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return xerrors.Errorf("read configuration: %w", err)
		}
		files[name] = raw
	}
	return runnerOf(ctx, files)
}

// runnerOf wants files of one configuration.
func runnerOf(ctx context.Context, files map[string][]byte) error {
	var c config
	var settings struct {
		ID int64 `json:"agentId"`
	}
	var credentials struct {
		Of int64 `json:"of"`
	}
	for name, into := range map[string]any{fileSettings: &settings, fileCredentials: &credentials, fileParameters: &c} {
		if err := json.Unmarshal(files[name], into); err != nil {
			return xerrors.Errorf("the file %s of the configuration is not JSON", name)
		}
	}
	if settings.ID != credentials.Of {
		return xerrors.New("the files are of two configurations")
	}
	return serve(ctx, c)
}

// RunnerWithToken registers first, as Gitea's do and GitHub's did, and then is like Runner. The address is the registration's.
func RunnerWithToken(ctx context.Context, address, token, name string, labels []string) error {
	at, err := url.Parse(address)
	if err != nil || at.Host == "" {
		return xerrors.Errorf("the address %q to register at is none", address)
	}
	body, _ := json.Marshal(map[string]any{"token": token, "name": name, "labels": labels})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.Scheme+"://"+at.Host+"/_runner/register", bytes.NewReader(body))
	if err != nil {
		return xerrors.Errorf("make request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return xerrors.Errorf("register: %w", err)
	}
	defer resp.Body.Close()
	var c config
	if resp.StatusCode != http.StatusOK {
		return xerrors.Errorf("register: status %d", resp.StatusCode)
	}
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
		return xerrors.Errorf("register: %w", err)
	}
	return serve(ctx, c)
}

func serve(ctx context.Context, c config) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/_runner/run", nil)
	if err != nil {
		return xerrors.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return xerrors.Errorf("connect to forge: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return xerrors.Errorf("connect to forge: status %d", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return xerrors.Errorf("read order: %w", err)
		}
		if o.Done {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return xerrors.Errorf("read order: %w", err)
	}
	return xerrors.New("the forge has let go of the runner")
}

// window counts requests against a limit.
type window struct {
	used  int
	reset time.Time
}
