package kubernetes_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
)

// record is a folder for the statuses that were seen, for testdata of the provider.
var record = flag.String("record", "", "write the statuses that were seen into this folder")

// A real fault is reported in words that name its cause. It is transient where another pod may become ready.
func TestCauses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, c := range []struct {
		name              string
		spec              json.RawMessage
		failed, transient bool
		says              []string
	}{
		{
			"unschedulable", spec(`, "resources": {"requests": {"memory": "900Gi"}}`, ""), false, false,
			[]string{"no node takes it: 0/1 nodes are available", "Insufficient memory"},
		},
		{
			"no-image", json.RawMessage(strings.ReplaceAll(string(spec("", "")), k8stest.Guest, "prewarm.test/nothing:1")), true, false,
			[]string{"container dev: ErrImageNeverPull"},
		},
		{
			"bad-image", json.RawMessage(strings.ReplaceAll(string(spec("", "")), k8stest.Guest, "prewarm.test/A:1")), true, false,
			[]string{"container dev: InvalidImageName"},
		},
		{
			"registry-away", json.RawMessage(strings.NewReplacer(k8stest.Guest, "127.0.0.1:1/nothing:1", "Never", "Always").Replace(string(spec("", "")))),
			false, false,
			[]string{"container dev: ", "127.0.0.1:1"},
		},
		{"no-program", spec(`, "command": ["/bin/nothing"]`, ""), true, false, []string{"container dev cannot be started", "/bin/nothing"}},
		{
			"crash-loop", spec(`, "command": ["/bin/sh", "-c", "echo no license; exit 3"]`, ""), true, false,
			[]string{"container dev ended with exit status 3, 4 times", "no license"},
		},
		{
			"once", spec(`, "command": ["/bin/sh", "-c", "echo no license; exit 3"]`, `, "restartPolicy": "Never"`), true, false,
			[]string{"container dev ended with exit status 3", "no license"},
		},
		{"done", spec(`, "command": ["/bin/true"]`, `, "restartPolicy": "Never"`), true, false, []string{"exit status 0"}},
		{
			"init", spec("", `, "restartPolicy": "Never", "initContainers": [{"name": "setup", "imagePullPolicy": "Never", "image": "`+k8stest.Guest+
				`", "command": ["/bin/sh", "-c", "echo no network; exit 4"]}]`), true, false,
			[]string{"container setup ended with exit status 4", "no network"},
		},
		{"memory", spec(`, "command": ["/bin/sh", "-c", "x=0123456789; while true; do x=$x$x; done"], "resources": {"limits": {"memory": "20Mi"}}`,
			`, "restartPolicy": "Never"`), true, false, []string{"used more memory than its limit"}},
		{"as-root", spec(`, "securityContext": {"runAsNonRoot": true}`, ""), true, false, []string{"runAsNonRoot"}},
		{
			"unready", spec(`, "readinessProbe": {"exec": {"command": ["false"]}}`, ""), false, false,
			[]string{"waiting for the readiness probe of container dev"},
		},
		{"too-long", spec("", `, "activeDeadlineSeconds": 2`), true, false, []string{"DeadlineExceeded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := *p
			q.t = t
			i := q.create(request(c.spec))
			r := q.until(i, c.name, func(r provider.Readiness) bool {
				return r.Failed == c.failed && !r.Ready && strings.Contains(r.Detail, c.says[0])
			})
			for _, want := range c.says {
				assert.Contains(t, r.Detail, want)
			}
			assert.Equal(t, c.transient, r.Transient)
			q.eventually("its status says so too", func() bool { // one that crashes runs for a moment in between
				is, err := q.Get(t.Context(), refOf(i))
				require.NoError(t, err)
				return c.failed == (is.Status == provider.StatusError)
			})
			t.Log(r.Detail)
			if *record != "" {
				status := q.kubectl("get", "pod", i.Name, "-o", "json")
				require.NoError(t, os.WriteFile(filepath.Join(*record, c.name+".json"), []byte(status), 0o600))
			}
		})
	}
}

// A pod that somebody deletes is not ready from that moment on, though it runs; it is there until it is gone, and counts.
func TestTerminating(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	req := request(spec(`, "command": ["/bin/guest", "hang", "x"]`, ""))
	i := p.create(req)
	p.becomesReady(i)
	p.kubectl("delete", "pod", i.Name, "--wait=false", "--grace-period=30")
	r, err := p.Ready(t.Context(), refOf(i))
	require.NoError(t, err)
	require.Equal(t, provider.Readiness{Failed: true, Transient: true, Detail: "somebody deletes the pod"}, r)
	require.Equal(t, "Running", p.kubectl("get", "pod", i.Name, "-o", "jsonpath={.status.phase}"))
	all, err := p.List(t.Context(), req.Tags.Installation)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, provider.StatusError, all[0].Status)
	p.kubectl("delete", "pod", i.Name, "--force", "--grace-period=0")
}

// An eviction is one of the cluster's causes.
func TestEvicted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	i := p.create(request(spec(`, "command": ["/bin/guest", "hang", "x"]`, "")))
	p.becomesReady(i)
	p.cluster.Must(t, `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "`+i.Name+`", "namespace": "`+p.namespace+`"}}`,
		"create", "--raw", "/api/v1/namespaces/"+p.namespace+"/pods/"+i.Name+"/eviction", "-f", "-")
	r, err := p.Ready(t.Context(), refOf(i))
	require.NoError(t, err)
	require.True(t, r.Failed && r.Transient)
	require.Contains(t, r.Detail, "evicted: ")
}

// What admission refuses is reported at apply, unless it is of the moment only.
func TestAdmission(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "pod-security.kubernetes.io/enforce=restricted")
	check := func(s json.RawMessage) []provider.Problem {
		problems, err := p.Check(t.Context(), request(s))
		require.NoError(t, err)
		return problems
	}
	problems := check(spec("", ""))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Message, "violates PodSecurity")
	_, err := p.Create(t.Context(), request(spec("", "")))
	require.True(t, provider.IsPermanent(err), "%v", err)

	good := spec(`, "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}`,
		`, "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}`)
	require.Empty(t, check(good))
	problems = check(json.RawMessage(strings.Replace(string(good), `"name": "dev"`, `"name": "Dev_1"`, 1)))
	require.NotEmpty(t, problems)
	require.Equal(t, "pod.spec.containers[0].name", problems[0].Path)

	p.kubectl("create", "quota", "few", "--hard=pods=1")
	require.Eventually(t, func() bool {
		return p.kubectl("get", "quota", "few", "-o", "jsonpath={.status.used.pods}") == "0"
	}, time.Minute, 100*time.Millisecond)
	p.create(request(good))
	_, err = p.Create(t.Context(), request(good))
	require.ErrorContains(t, err, "quota is used up")
	require.False(t, provider.IsPermanent(err))
	_, err = p.Check(t.Context(), request(good))
	require.ErrorContains(t, err, "quota is used up") // no problem of the template's
	require.Empty(t, p.writes()["update pods"])
}
