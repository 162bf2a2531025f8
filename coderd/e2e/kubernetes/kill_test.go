package kubernetes_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes"
)

// childVariable has this test binary create one workspace, and be killed meanwhile.
const childVariable = "PREWARM_K8S_CHILD"

type child struct {
	Config  kubernetes.Config
	Request provider.CreateRequest
}

// TestChild is no test, but the process that TestKilled kills.
func TestChild(t *testing.T) {
	raw := os.Getenv(childVariable)
	if raw == "" {
		return
	}
	var c child
	require.NoError(t, json.Unmarshal([]byte(raw), &c))
	p, err := kubernetes.New(t.Context(), kubernetes.Options{Config: c.Config})
	require.NoError(t, err)
	_, _ = os.Stdout.WriteString("\n")
	_, _ = p.Create(t.Context(), c.Request)
	select {} // what was made is never recorded
}

// A process that is killed at any point of a create leaves at most one pod, which the next create finds by its name.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	left := 0
	for round := range rounds(8) {
		req := request(spec(`, "command": ["/bin/guest", "serve"]`, ""))
		if round%2 == 0 {
			req.Spec = withVolumes(`, "command": ["/bin/guest", "serve"]`)
		}
		req.Callback = provider.Callback{CallbackURL: "http://prewarm.test/api/v1/instances/x", Token: "the-token"}
		raw, err := json.Marshal(child{p.config, req})
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0], "-test.run", "^TestChild$")
		cmd.Env = append(os.Environ(), childVariable+"="+string(raw))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 1)) // it is about to create
		require.NoError(t, err)
		time.Sleep(rand.N(60 * time.Millisecond)) // the point at which it is killed
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		before, err := p.List(t.Context(), req.Tags.Installation)
		require.NoError(t, err)
		require.LessOrEqual(t, len(before), 1)
		left += len(before)
		i := p.create(req)
		if len(before) == 1 {
			require.Equal(t, before[0].ProviderID, i.ProviderID)
		}
		p.becomesReady(i)
		after, err := p.List(t.Context(), req.Tags.Installation)
		require.NoError(t, err)
		require.Len(t, after, 1)
		require.NoError(t, p.Delete(t.Context(), refOf(i)))
	}
	t.Logf("%d of %d kills left a pod", left, rounds(8))
	require.Empty(t, p.kubectl("get", "pods,secrets,persistentvolumeclaims", "-o", "name"))
}
