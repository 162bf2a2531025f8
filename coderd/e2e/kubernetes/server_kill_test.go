package kubernetes_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// A server is killed when the API server has made a pod, and before the server hears of it, again and again: in the end each
// workspace is one pod.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.between()
	database := dbtest.URL(t)
	kills := rounds(20)
	var server *e2etest.Server
	made := map[string]bool{}
	for n := 1; n <= kills; n++ {
		server = p.serverOf(database)
		victim, ended := server, make(chan struct{})
		var once sync.Once
		b.when(func(r *http.Response) {
			if r.Request.Method == http.MethodPost && strings.HasSuffix(r.Request.URL.Path, "/pods") && r.Request.URL.RawQuery == "" &&
				r.StatusCode == http.StatusCreated {
				once.Do(func() { victim.Kill(); close(ended) })
			}
		})
		apply(t, server.Client, p.document(b.kubeconfig, fmt.Sprintf(plain, n)))
		<-ended
		b.when(nil)
		for _, name := range p.pods() {
			made[name] = true
		}
	}
	require.GreaterOrEqual(t, len(made), kills)
	server = p.serverOf(database)
	ready := p.isFull(server.Client, kills)
	for _, name := range ready {
		delete(made, name)
	}
	require.Empty(t, made, "pods that were made and are no workspace's")
	require.NoError(t, server.Client.DeleteTemplate(t.Context(), "plain"))
	p.eventually("nothing is left", func() bool { return len(p.pods()) == 0 })
}
