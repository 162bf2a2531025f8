package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	opened = "providers: [{name: local, kind: local, data_plane: {enter: true, public_ports: true}}]\n"
	closed = "providers: [{name: local, kind: local}]\n"
)

// user is somebody with a role, and a token that the owner made.
func user(t *testing.T, server *e2etest.Server, name, role string) *sdk.Client {
	t.Helper()
	token, err := server.Client.CreateToken(t.Context(), sdk.CreateTokenRequest{Name: name, User: name, Role: role})
	require.NoError(t, err)
	return &sdk.Client{URL: server.Client.URL, Token: token.Secret}
}

// A workspace is open to template-admins where its version says so and the owner allowed it before the claim. The answer to
// the claim says it. What is allowed later changes nothing, and what is not allowed any more ends at once, also what goes on.
func TestOpenWorkspaces(t *testing.T) {
	t.Parallel()
	template := strings.Replace(fmt.Sprintf(enterable, 1), "{heartbeat_timeout: 1m}", "{enter: [template-admin], public_ports: [3000]}", 1)
	server := agents(t, opened+template)
	apply := func(document string) {
		t.Helper()
		_, err := server.Client.Apply(t.Context(), sdk.ApplyRequest{Document: document, File: "test.yaml"})
		require.NoError(t, err)
	}
	mine, admin := user(t, server, "mine", "member"), user(t, server, "admin", "template-admin")
	strangers := map[string]*sdk.Client{
		"the owner": server.Client, "another member": user(t, server, "other", "member"), "an auditor": user(t, server, "auditor", "auditor"),
	}
	begin := func(c *sdk.Client, name string) error {
		_, err := c.StartProcess(t.Context(), name, sdk.ProcessStart{Shell: "true"})
		return err
	}

	// Nobody enters one that is not claimed.
	unclaimed := ready(t, server.Client)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(begin(admin, unclaimed.Name)))

	claim, err := mine.Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Preset: "default", Wait: "1m"})
	require.NoError(t, err)
	require.Equal(t, sdk.Open{Enter: []string{"template-admin"}, PublicPorts: []int{3000}}, claim.Open)
	require.Equal(t, claim.Open, show(t, mine, claim.Name).Open)
	text := e2etest.Run(t.Context(), t, []string{"PREWARM_URL=" + mine.URL.String(), "PREWARM_TOKEN=" + mine.Token}, "workspace", "show", claim.Name)
	require.Contains(t, text.Stdout, "may also be entered by template-admin, and anybody may reach port 3000")
	require.NoError(t, begin(mine, claim.Name))
	require.NoError(t, begin(admin, claim.Name))
	for who, c := range strangers {
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(begin(c, claim.Name)), who)
	}
	eventually(t, "the record to say by which right", func() bool {
		entries, err := server.Client.Audit(t.Context(), sdk.AuditFilter{})
		require.NoError(t, err)
		rights := map[string]string{}
		for _, entry := range entries.Entries {
			if entry.Action == "session.begin" {
				rights[entry.Actor] = string(entry.After)
			}
		}
		return strings.Contains(rights["mine"], `"right":"claim"`) && strings.Contains(rights["admin"], `"right":"template-admin"`)
	})

	// The owner allows it no longer: what goes on ends, and nothing begins, but for the user of the claim.
	follow := func(c *sdk.Client) (ended chan error) {
		resp := entered{t, nil, claim.Name}.request(t.Context(), c, http.MethodPost, "/run", `{"shell":"echo; sleep 600"}`)
		t.Cleanup(func() { _ = resp.Body.Close() })
		require.Equal(t, http.StatusOK, resp.StatusCode)
		_, err := io.ReadFull(resp.Body, make([]byte, 10))
		require.NoError(t, err)
		ended = make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, resp.Body)
			ended <- err
		}()
		return ended
	}
	admins, users := follow(admin), follow(mine)
	apply(closed)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(begin(admin, claim.Name)))
	select {
	case <-admins:
	case <-users:
		require.Fail(t, "what the user of the claim had begun has ended")
	case <-wait(t).Done():
		require.Fail(t, "what the template-admin had begun goes on")
	}
	require.Empty(t, users)
	require.NoError(t, begin(mine, claim.Name))
	require.Empty(t, show(t, mine, claim.Name).Open)

	// It never becomes more than at the claim.
	meanwhile, err := mine.Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Preset: "default", Wait: "1m"})
	require.NoError(t, err)
	require.Empty(t, meanwhile.Open)
	apply(opened)
	for _, name := range []string{claim.Name, meanwhile.Name} {
		require.Equal(t, http.StatusNotFound, sdk.StatusOf(begin(admin, name)))
	}
	after, err := mine.Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Preset: "default", Wait: "1m"})
	require.NoError(t, err)
	require.Equal(t, []string{"template-admin"}, after.Enter)
	require.NoError(t, begin(admin, after.Name))
}

// wait ends before anything in a test takes for ever.
func wait(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
