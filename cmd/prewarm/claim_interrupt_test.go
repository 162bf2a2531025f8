package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Who interrupts a waiting claim leaves nothing behind: the claim is asked for once more under the same key, with no
// time to wait, and what it was given meanwhile is released.
func TestInterruptedClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	var keys []string
	server := newFakeServer(t, nil)
	server.answers = map[string]answer{
		"POST /claims": {handle: func(w http.ResponseWriter, r *http.Request) {
			asked := server.asked()
			var req sdk.ClaimRequest
			last := asked[len(asked)-1]
			if err := json.Unmarshal([]byte(last[strings.Index(last, "{"):]), &req); err != nil {
				t.Error(err)
			}
			keys = append(keys, req.Key)
			if len(keys) == 1 {
				interrupt()
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, mustJSON(t, testClaim))
		}},
		"POST /workspaces/" + testClaim.WorkspaceID.String() + "/release": {body: mustJSON(t, testWorkspace)},
	}
	shell := newShell(t, server.URL)
	var stdout, stderr bytes.Buffer
	if status := shell.app(&stdout, &stderr).run(ctx, []string{"claim", "quickstart/default"}); status != 130 {
		t.Errorf("exit status %d, not 130: %s", status, stderr.String())
	}
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("claims were asked for with the keys %q", keys)
	}
	asked := server.asked()
	if last := asked[len(asked)-1]; !strings.HasSuffix(last, "/release") {
		t.Errorf("the workspace was not released: %q", asked)
	}
}
