package kubernetes_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/runnertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Every kind of runner runs a job as a pod, which is made for that job and goes with it: the column of the table in docs/forges.md.
func TestRunners(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.hasServerImage()
	image, err := p.cluster.ImportProgram("runner", "demand/forgetest/runner")
	require.NoError(t, err)
	server := p.serverOf(dbtest.URL(t))
	kinds := runnertest.Kinds()
	for _, k := range kinds {
		k.Connect(t, server, "", k8stest.Gateway)
	}
	pods := runnertest.Place{Column: runnertest.Kubernetes, Body: fmt.Sprintf(`agent: {runner: [sh, -c, 'SSL_CERT_FILE="$PREWARM_FORGE_CA_FILE" exec runner']}
    spec:
      pod:
        spec:
          terminationGracePeriodSeconds: 5
          containers: [{name: dev, image: %q, imagePullPolicy: Never, command: [sleep, infinity]}]`, image)}
	apply(t, server.Client, p.document(p.config.Kubeconfig, "templates:\n"+pods.Template(kinds)))

	became := map[runnertest.Cell]string{}
	var mu sync.Mutex
	var cells sync.WaitGroup
	for _, k := range kinds {
		for _, s := range runnertest.Scopes {
			cells.Go(func() {
				outcome := k.Run(t, server, pods, s)
				mu.Lock()
				defer mu.Unlock()
				became[pods.At(k, s)] = outcome
			})
		}
	}
	cells.Wait()
	for _, k := range kinds {
		assert.Empty(t, k.Forge.Judge().KilledBusy)
		assert.Empty(t, k.Forge.Judge().RemovedBusy)
	}
	require.Empty(t, p.pods())
	if !t.Failed() {
		runnertest.Hold(t, kinds, became)
	}
}
