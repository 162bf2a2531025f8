package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// A workspace has its parameters, runs commands, and gives out what it wrote.
func TestInside(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	i := p.create(request(spec("", "")))
	p.becomesReady(i)
	now, err := p.Get(t.Context(), refOf(i))
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, now.Status)
	require.NotEmpty(t, now.Addresses)

	code, out := p.run(i, provider.ExecRequest{Command: []string{"/bin/guest", "env"}, Env: map[string]string{"MORE": "a b"}})
	require.Zero(t, code)
	for _, want := range []string{"PARAM_REGION_A=north", "PREWARM_WORKSPACE=" + i.Name, "MORE=a b"} {
		assert.Contains(t, out, want+"\n")
	}
	code, _ = p.run(i, provider.ExecRequest{Command: []string{"/bin/guest", "exit", "7"}})
	assert.Equal(t, 7, code)
	code, out = p.run(i, provider.ExecRequest{Command: []string{"/bin/guest", "cat"}, Stdin: strings.NewReader("to and fro")})
	assert.Zero(t, code)
	assert.Equal(t, "to and fro", out)
	code, out = p.run(i, provider.ExecRequest{Command: []string{"nothing"}})
	assert.Equal(t, 127, code)
	assert.Contains(t, out, "nothing")

	logs, err := p.Logs(t.Context(), refOf(i), true)
	require.NoError(t, err)
	said := make(chan string, 1)
	go func() { all, _ := io.ReadAll(logs); said <- string(all) }()
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.Contains(t, <-said, "guest is up\n") // and the log ends with the workspace
}

// A terminal has sizes.
func TestTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	i := p.create(request(spec("", "")))
	p.becomesReady(i)
	in, typed := io.Pipe()
	sizes := make(chan provider.WindowSize, 1)
	sizes <- provider.WindowSize{Rows: 33, Cols: 77}
	var out bytes.Buffer
	seen := &waiter{buffer: &out, until: "33", found: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
			Command: []string{"/bin/guest", "size"}, TTY: true, Stdin: in, Stdout: seen, Resize: sizes,
		})
		ended <- err
	}()
	select {
	case <-seen.found:
	case err := <-ended:
		require.FailNow(t, "it ended", "%v %s", err, out.String())
	}
	_, _ = typed.Write([]byte("\n"))
	require.NoError(t, <-ended)
}

// waiter tells when something is written.
type waiter struct {
	buffer *bytes.Buffer
	until  string
	found  chan struct{}
	done   bool
}

func (w *waiter) Write(p []byte) (int, error) {
	n, err := w.buffer.Write(p)
	if !w.done && strings.Contains(w.buffer.String(), w.until) {
		w.done = true
		close(w.found)
	}
	return n, err
}

// A command that is given up does not go on, nor what it started.
func TestExecIsEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	i := p.create(request(spec("", "")))
	p.becomesReady(i)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	seen := &waiter{buffer: &out, until: "hanging", found: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Exec(ctx, refOf(i), provider.ExecRequest{Command: []string{"/bin/guest", "hang"}, Stdout: seen})
		ended <- err
	}()
	<-seen.found
	_, before := p.run(i, provider.ExecRequest{Command: []string{"/bin/guest", "ps"}})
	require.Contains(t, before, "hang child")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	_, after := p.run(i, provider.ExecRequest{Command: []string{"/bin/guest", "ps"}})
	require.NotContains(t, after, "hang")
}

// The agent's token is in a secret, which goes with its pod, and in nothing that describes the pod. A create is two writes.
func TestAgentToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "pod-security.kubernetes.io/enforce=restricted")
	restricted := `, "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}`
	req := request(spec(restricted+`, "command": ["/bin/guest", "serve"]`,
		`, "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}`))
	req.Callback = provider.Callback{CallbackURL: "http://127.0.0.1:7080/api/v1/instances/x", Token: "the-token", CABundle: []byte("PEM")}
	begun := time.Now()
	i := p.create(req)
	created := time.Since(begun)
	p.becomesReady(i)
	t.Logf("created in %s, ready after %s", created, time.Since(begun))

	_, token := p.run(i, provider.ExecRequest{Command: []string{"cat", "/.prewarm/token/token"}})
	require.Equal(t, "the-token\n", token)
	require.NotContains(t, p.kubectl("describe", "pod", i.Name), "the-token")
	require.NotContains(t, p.kubectl("get", "pod", i.Name, "-o", "json"), "the-token")
	require.Contains(t, p.kubectl("get", "secrets", "-o", "name"), i.Name)
	require.Equal(t, map[string]int{"create pods": 1, "create secrets": 1}, p.writes())

	again, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, i.ProviderID, again.ProviderID)
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	require.Empty(t, p.kubectl("get", "pods,secrets", "-o", "name"))

	// Somebody else's delete takes the secret along too.
	other := req
	other.Name, other.Tags.WorkspaceID = "another", request(nil).Tags.WorkspaceID
	p.create(other)
	p.kubectl("delete", "pod", "another", "--now")
	require.Eventually(t, func() bool { return p.kubectl("get", "secrets", "-o", "name") == "" }, 2*time.Minute, 200*time.Millisecond)
}

// audited is a request of Prewarm in the namespace, by the API server's audit log.
type audited struct {
	Verb       string
	RequestURI string
	ObjectRef  struct{ Namespace, Resource, Subresource string }
}

func (p *place) audited() (all []audited) {
	p.t.Helper()
	log, err := os.ReadFile(p.cluster.AuditLog())
	require.NoError(p.t, err)
	for line := range strings.Lines(string(log)) {
		var entry audited
		require.NoError(p.t, json.Unmarshal([]byte(line), &entry))
		if entry.ObjectRef.Namespace == p.namespace {
			all = append(all, entry)
		}
	}
	return all
}

// writes counts the requests that changed something in the namespace.
func (p *place) writes() map[string]int {
	p.t.Helper()
	all := map[string]int{}
	for _, r := range p.audited() {
		if r.Verb != "get" && r.Verb != "list" && r.ObjectRef.Subresource != "exec" && !strings.Contains(r.RequestURI, "dryRun") {
			all[strings.TrimSuffix(r.Verb+" "+r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")]++
		}
	}
	return all
}

// What carries our labels and another name, or our name and no labels, is not ours, and stays.
func TestForeignPods(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	req := request(spec("", ""))
	i := p.create(req)
	var pod map[string]any
	require.NoError(t, json.Unmarshal([]byte(p.kubectl("get", "pod", i.Name, "-o", "json")), &pod))
	labels := pod["metadata"].(map[string]any)["labels"]
	apply := func(name string, labels any) {
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "labels": labels}, "spec": pod["spec"],
		})
		require.NoError(t, err)
		p.cluster.Must(t, string(raw), "create", "--namespace", p.namespace, "-f", "-")
	}
	apply("a-copy", labels)
	taken := request(spec("", ""))
	apply(taken.Name, nil)
	all, err := p.List(t.Context(), req.Tags.Installation)
	require.NoError(t, err)
	require.Len(t, all, 1)
	_, err = p.Create(t.Context(), taken)
	require.ErrorIs(t, err, provider.ErrConflict)
	for _, name := range []string{"a-copy", taken.Name} {
		_, err := p.Get(t.Context(), provider.Ref{Name: name})
		require.ErrorIs(t, err, provider.ErrNotFound)
		require.NoError(t, p.Delete(t.Context(), provider.Ref{Name: name}))
	}
	// One that was deleted, and made again by somebody under the same name, is another.
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	apply(i.Name, labels)
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	names := strings.Fields(p.kubectl("get", "pods", "-o", "name"))
	require.ElementsMatch(t, []string{"pod/a-copy", "pod/" + taken.Name, "pod/" + i.Name}, names)
}

// What is observed: the pods that are in trouble when it begins, and those that get into it; of this installation only.
func TestObserve(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	of := request(spec("", "")).Tags.Installation
	made := func() provider.CreateRequest {
		req := request(spec(`, "command": ["/bin/guest", "hang", "x"]`, ""))
		req.Tags.Installation = of
		p.becomesReady(p.create(req))
		return req
	}
	before, during, well, foreign := made(), made(), made(), request(spec("", ""))
	p.create(foreign)
	p.kubectl("delete", "pod", before.Name, "--wait=false", "--grace-period=300")
	told := map[uuid.UUID]int{}
	changes := [][]string{{during.Name, "--wait=false"}, {during.Name, "--force", "--grace-period=0"}, {foreign.Name, "--wait=false"}, {before.Name, "--force", "--grace-period=0"}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := p.Observe(ctx, of, func(id uuid.UUID) {
		told[id]++
		for ; len(changes) > 0; changes = changes[1:] { // at the first one, which was in trouble before
			p.kubectl(append([]string{"delete", "pod"}, changes[0]...)...)
		}
		if told[before.Tags.WorkspaceID] > 1 && told[during.Tags.WorkspaceID] > 1 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled, "%v", told)
	require.Zero(t, told[well.Tags.WorkspaceID])
	require.Zero(t, told[foreign.Tags.WorkspaceID])
}
