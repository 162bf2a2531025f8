package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func sdkFilter(state string, limit int32, after string) sdk.WorkspaceFilter {
	return sdk.WorkspaceFilter{State: state, Limit: limit, After: after}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	client := w.as("member")

	miss, err := client.Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require"})
	require.NoError(t, err, "that there is none is an answer")
	require.Equal(t, "miss", miss.Outcome)
	require.NotEmpty(t, miss.Reason)
	require.Nil(t, miss.WorkspaceID)

	warm := w.workspace("quickstart", "ready", "prewarm")
	hit, err := client.Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, "hit", hit.Outcome)
	require.Equal(t, warm.ID, *hit.WorkspaceID)
	require.Equal(t, warm.Name, hit.Name)
	require.Equal(t, "pid", hit.ProviderID)
	require.Equal(t, map[string]string{"SECRET": "x"}, hit.Environment)
	require.NotNil(t, hit.Addresses)
	require.Contains(t, w.nudged, warm.TemplateID)

	again, err := client.Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, hit.WorkspaceID, again.WorkspaceID)
	_, err = client.Claim(ctx, sdk.ClaimRequest{Template: "plain", Preset: "default", Mode: "require", Key: "k"})
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err))

	for name, test := range map[string]struct {
		req    sdk.ClaimRequest
		status int
		want   string
	}{
		"another template": {
			sdk.ClaimRequest{Template: "quikstart", Preset: "default"},
			404,
			`there is no preset "quikstart/default" (did you mean "quickstart/default"?): there are plain/default, quickstart/default`,
		},
		"another preset": {
			sdk.ClaimRequest{Template: "quickstart", Preset: "defualt"},
			404,
			`template "quickstart" has no preset "defualt" (did you mean "default"?): there is only default`,
		},
		"another template, any preset": {
			sdk.ClaimRequest{Template: "quikstart"},
			404,
			`there is no template "quikstart" (did you mean "quickstart"?): there are plain, quickstart`,
		},
		"a path":       {sdk.ClaimRequest{Template: "../quickstart", Preset: "default"}, 404, "there is no preset"},
		"no such mode": {sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "fast"}, 422, "body.mode: expected value to be one of"},
		"a bad wait":   {sdk.ClaimRequest{Template: "quickstart", Preset: "default", Wait: "soon"}, 422, `wait "soon": write a duration like 30s`},
		"a long wait":  {sdk.ClaimRequest{Template: "quickstart", Preset: "default", Wait: "24h"}, 422, "from 0s to 15m0s"},
		"no template":  {sdk.ClaimRequest{Preset: "default"}, 422, "body.template: expected length >= 1"},
		"a long key":   {sdk.ClaimRequest{Template: "quickstart", Preset: "default", Key: strings.Repeat("k", 201)}, 422, "body.key"},
		"a NUL":        {sdk.ClaimRequest{Template: "quick\x00start", Preset: "default"}, 422, "leave them out"},
	} {
		before := w.dump()
		_, err := client.Claim(ctx, test.req)
		require.Equal(t, test.status, sdk.StatusOf(err), name)
		require.ErrorContains(t, err, test.want, name)
		require.Equal(t, before, w.dump(), name)
	}
}

func TestReleaseAndDelete(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	mine := w.workspace("quickstart", "claimed", "member")
	released, err := w.as("member").ReleaseWorkspace(ctx, mine.Name)
	require.NoError(t, err)
	require.Equal(t, "draining", released.State)
	require.Equal(t, "drain", released.Job.Kind)
	require.Equal(t, 1, w.woken)
	require.Contains(t, w.nudged, mine.TemplateID)
	_, err = w.as("member").ReleaseWorkspace(ctx, mine.Name)
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err))
	require.EqualError(t, err, "workspace is not claimed")

	shown, err := w.as("member").Workspace(ctx, mine.ID.String())
	require.NoError(t, err)
	last := shown.History[len(shown.History)-1]
	require.Equal(t, "claimed", last.From)
	require.Equal(t, "draining", last.To)
	require.Equal(t, "member", last.Actor)

	prebuild := w.workspace("quickstart", "ready", "prewarm")
	deleted, err := w.as("admin").DeleteWorkspace(ctx, prebuild.Name, false)
	require.NoError(t, err)
	require.Equal(t, "draining", deleted.State)
	_, err = w.as("admin").DeleteWorkspace(ctx, prebuild.Name, false)
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err))
	_, err = w.as("owner").DeleteWorkspace(ctx, prebuild.Name, true)
	require.NoError(t, err)
	_, err = w.as("owner").DeleteWorkspace(ctx, uuid.NewString(), true)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
}

func TestListWorkspaces(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	client := w.as("admin")
	var want []string
	for range 7 {
		want = append([]string{w.workspace("quickstart", "ready", "prewarm").Name}, want...)
	}
	want = append([]string{w.workspace("plain", "claimed", "member").Name}, want...)
	w.workspace("quickstart", "deleted", "prewarm")
	// Equal times are told apart by id; put two rows at one.
	var got []string
	after, pages := "", 0
	for {
		page, err := client.Workspaces(ctx, sdkFilter("", 3, after))
		require.NoError(t, err)
		pages++
		for _, x := range page.Workspaces {
			got = append(got, x.Name)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, 3, pages)

	for name, test := range map[string]struct {
		filter sdk.WorkspaceFilter
		n      int
	}{
		"state":        {sdk.WorkspaceFilter{State: "claimed"}, 1},
		"deleted":      {sdk.WorkspaceFilter{State: "deleted"}, 1},
		"template":     {sdk.WorkspaceFilter{Template: "plain"}, 1},
		"preset":       {sdk.WorkspaceFilter{Preset: "default"}, 8},
		"owner":        {sdk.WorkspaceFilter{Owner: "member"}, 1},
		"both":         {sdk.WorkspaceFilter{Owner: "member", State: "ready"}, 0},
		"nothing such": {sdk.WorkspaceFilter{Template: "x"}, 0},
	} {
		page, err := client.Workspaces(ctx, test.filter)
		require.NoError(t, err, name)
		require.Len(t, page.Workspaces, test.n, name)
		require.NotNil(t, page.Workspaces, name)
	}
	for _, query := range []string{"?limit=501", "?limit=0", "?limit=x", "?after=x", "?state=lost"} {
		require.Equal(t, http.StatusUnprocessableEntity,
			w.call(w.token["admin"], http.MethodGet, "/api/v1/workspaces"+query, "").status, query)
	}
}

// TestLogsOfOneUser: nobody can hold a replica's logs in any number; who ends one may begin another, and others may all the
// while.
func TestLogsOfOneUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.workspace("quickstart", "claimed", "member")
	_, err := w.store.Pool.Exec(t.Context(), "UPDATE workspaces SET provider_id = 'endless' WHERE id = $1", mine.ID)
	require.NoError(t, err)
	var logs []io.ReadCloser
	for i := range 200 {
		l, err := w.as("member").WorkspaceLogs(t.Context(), mine.Name, i%2 == 0)
		require.NoError(t, err, i)
		defer l.Close()
		logs = append(logs, l)
	}
	_, err = w.as("member").WorkspaceLogs(t.Context(), mine.Name, true)
	require.Equal(t, http.StatusTooManyRequests, sdk.StatusOf(err))
	require.ErrorContains(t, err, "you read the output of workspaces 200 times")
	other, err := w.as("admin").WorkspaceLogs(t.Context(), mine.Name, true)
	require.NoError(t, err)
	require.NoError(t, other.Close())

	require.NoError(t, logs[0].Close())
	require.Eventually(t, func() bool {
		l, err := w.as("member").WorkspaceLogs(t.Context(), mine.Name, true)
		if err == nil {
			defer l.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

func TestExecAndLogs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	mine := w.workspace("quickstart", "claimed", "member")
	var stdout, stderr bytes.Buffer
	code, err := w.as("member").Exec(ctx, mine.Name, sdk.ExecRequest{
		ExecStart: sdk.ExecStart{Command: []string{"a", "b", "c"}, Env: map[string]string{"A": "to stderr"}},
		Stdin:     strings.NewReader("input"), Stdout: &stdout, Stderr: &stderr,
	})
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Equal(t, mine.Name+": a b c input", stdout.String())
	require.Equal(t, "to stderr", stderr.String())

	logs, err := w.as("member").WorkspaceLogs(ctx, mine.Name, true)
	require.NoError(t, err)
	b, err := io.ReadAll(logs)
	require.NoError(t, err)
	require.Equal(t, mine.Name+" follow=true\n", string(b))

	try := func(user, ref string) (int, string) {
		_, err := w.as(user).Exec(ctx, ref, sdk.ExecRequest{ExecStart: sdk.ExecStart{Command: []string{"x"}}})
		require.Error(t, err)
		return sdk.StatusOf(err), err.Error()
	}
	status, text := try("admin", w.workspace("plain", "claimed", "other").Name)
	require.Equal(t, http.StatusNotImplemented, status)
	require.Equal(t, "provider bare cannot run commands", text)

	status, text = try("admin", w.workspace("quickstart", "ready", "prewarm").Name)
	require.Equal(t, http.StatusConflict, status, "a prebuild that somebody was in would be handed on as new")
	require.Contains(t, text, "only a claimed one can be entered")

	far := w.workspace("quickstart", "claimed", "member")
	_, err = w.store.Pool.Exec(ctx, "UPDATE workspaces SET site = 'far' WHERE id = $1", far.ID)
	require.NoError(t, err)
	status, text = try("member", far.Name)
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.Contains(t, text, "no replica of that site is alive")
	_, err = w.store.Pool.Exec(ctx, `INSERT INTO replicas (name, instance_id, version, address, sites, started_at, heartbeat_at)
		VALUES ('there', $1, 'x', '192.0.2.7:7080', '{far}', now(), now() + interval '1 minute')`, uuid.New())
	require.NoError(t, err)
	status, text = try("member", far.Name)
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.Contains(t, text, "ask there (http://192.0.2.7:7080)")

	// A browser on another site has no business here, even with a token; and a plain request is told what is missing.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/v1/workspaces/"+mine.Name+"/exec", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+w.token["member"])
	require.Equal(t, http.StatusUpgradeRequired, w.send(req).problem(t).Status)
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Origin": "https://evil.example", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		req.Header.Set(name, value)
	}
	require.Equal(t, http.StatusForbidden, w.send(req).status)
}

// Drift is for who may enter the workspace, once a look has found something out or has failed, and of its incarnation only.
func TestWorkspace_drift(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	row := w.workspace("quickstart", "claimed", "member")
	drift := func(user string) *sdk.Drift {
		t.Helper()
		is, err := w.as(user).Workspace(ctx, row.Name)
		require.NoError(t, err)
		return is.Drift
	}
	exec := func(sql string) {
		t.Helper()
		_, err := w.store.Pool.Exec(ctx, sql, row.ID)
		require.NoError(t, err)
	}
	require.Nil(t, drift("member"))
	exec("INSERT INTO workspace_drift (workspace_id, incarnation, begun_at) VALUES ($1, 1, now())")
	require.Nil(t, drift("member"), "the first look is not over")
	exec("UPDATE workspace_drift SET error = 'no network' WHERE workspace_id = $1")
	require.Equal(t, &sdk.Drift{Resources: []string{}, Error: "no network"}, drift("member"))
	exec("UPDATE workspace_drift SET error = '', looked_at = now(), resources = '{disk.a}' WHERE workspace_id = $1")
	found := drift("member")
	require.Equal(t, []string{"disk.a"}, found.Resources)
	require.NotNil(t, found.LookedAt)
	require.Nil(t, drift("auditor"), "who may read it, and not enter")
	exec(`INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, due_at, created_at, finished_at)
		VALUES (gen_random_uuid(), $1, 1, 'handover', 'roomy', 'done', now(), now(), now() + interval '1 second')`)
	require.Nil(t, drift("member"), "a job has changed it since")
	exec("UPDATE workspace_drift SET looked_at = now() + interval '2 seconds' WHERE workspace_id = $1")
	require.NotNil(t, drift("member"))
	exec("UPDATE workspaces SET provider = 'bare' WHERE id = $1")
	require.Nil(t, drift("member"), "nobody looks any more")
	exec("UPDATE workspaces SET provider = 'roomy' WHERE id = $1")
	exec("UPDATE workspace_drift SET incarnation = 7 WHERE workspace_id = $1")
	require.Nil(t, drift("member"))
}
