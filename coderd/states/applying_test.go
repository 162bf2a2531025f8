package states_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/states"
)

// token begins a run of the job's attempt, and returns its token too.
func (w *world) token() (states.Run, string) {
	w.t.Helper()
	c, err := w.Begin(w.t.Context(), w.job, 1)
	require.NoError(w.t, err)
	run, err := w.Authenticate(w.t.Context(), c.WorkspaceID.String(), c.Token)
	require.NoError(w.t, err)
	return run, c.Token
}

// unsure is what may exist of a workspace though no state names it; nil: the workspace is not stored.
func (w *world) unsure(id uuid.UUID) []string {
	w.t.Helper()
	all, err := w.All(w.t.Context())
	require.NoError(w.t, err)
	is, err := w.Of(w.t.Context(), id)
	if len(all) == 0 {
		require.ErrorIs(w.t, err, states.ErrNone)
		return nil
	}
	require.NoError(w.t, err)
	require.Equal(w.t, []states.Stored{is}, all)
	return is.Unsure
}

// withResources is a state that has these, as Terraform writes it.
func withResources(serial int, resources string) []byte {
	return fmt.Appendf(nil, `{"lineage":"l","serial":%d,"resources":[%s]}`, serial, resources)
}

// What an apply is to create is unsure until a state names it. Of one that was cut off it stays so, whatever runs begin.
func TestApplying(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	run, token := w.token()
	id := run.WorkspaceID
	require.Nil(t, w.unsure(id))
	require.NoError(t, w.Applying(ctx, id, token, []string{"t.a", `module.m["x\"y"].module.n.t.b[0]`, `t.c["$${k}"]`, "t.d", "t.e", "t.f"}))
	require.Len(t, w.unsure(id), 6, "listed without a state")

	run, token = w.token()
	require.Len(t, w.unsure(id), 6, "the next run leaves it")
	require.NoError(t, w.Lock(ctx, run, held("a")))
	require.NoError(t, w.Write(ctx, run, "a", withResources(1, `
		{"mode":"managed","type":"t","name":"a","instances":[{}]},
		{"mode":"managed","module":"module.m[\"x\\\"y\"].module.n","type":"t","name":"b","instances":[{"index_key":0},{"index_key":1}]},
		{"mode":"managed","type":"t","name":"c","instances":[{"index_key":"${k}"}]},
		{"mode":"managed","type":"t","name":"d","instances":[]},
		{"mode":"managed","type":"t","name":"e","instances":[{"deposed":"12345678"}]},
		{"mode":"data","type":"t","name":"f","instances":[{}]}`)))
	require.ElementsMatch(t, []string{"t.d", "t.e", "t.f"}, w.unsure(id))
	require.NoError(t, w.Write(ctx, run, "a", withResources(2, "")))
	require.ElementsMatch(t, []string{"t.d", "t.e", "t.f"}, w.unsure(id), "what a state has named was found by it, and is destroyed")

	require.NoError(t, w.Applying(ctx, id, token, []string{"t.d", "t.g"}))
	require.ElementsMatch(t, []string{"t.d", "t.e", "t.f", "t.g"}, w.unsure(id))
	require.NoError(t, w.Applied(ctx, id, token, []string{"t.d", "t.e", "t.f", "t.x"}))
	require.ElementsMatch(t, []string{"t.d", "t.e", "t.f"}, w.unsure(id), "it ended by itself")
	require.NoError(t, w.Applied(ctx, id, token, nil))
	require.Nil(t, w.unsure(id))
	require.NoError(t, w.Applying(ctx, id, token, nil))
	require.Nil(t, w.unsure(id), "it creates nothing")
}

// A worker that woke up late neither begins an apply nor ends another's.
func TestApplying_fence(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	run, late := w.token()
	_, token := w.token()
	require.NoError(t, w.Applying(ctx, run.WorkspaceID, token, []string{"t.a"}))
	require.ErrorIs(t, w.Applying(ctx, run.WorkspaceID, late, []string{"t.b"}), states.ErrOver)
	require.ErrorIs(t, w.Applied(ctx, run.WorkspaceID, late, nil), states.ErrOver)
	require.Equal(t, []string{"t.a"}, w.unsure(run.WorkspaceID))
	w.exec("UPDATE jobs SET attempt = 2")
	require.ErrorIs(t, w.Applied(ctx, run.WorkspaceID, token, nil), states.ErrOver, "leased by another")
	require.ErrorIs(t, w.Applying(ctx, uuid.New(), token, nil), states.ErrOver, "another workspace")
	require.Equal(t, []string{"t.a"}, w.unsure(run.WorkspaceID))
}

// What may be left of a workspace that a person deleted by force is forgotten with it.
func TestApplying_deleted(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	run, token := w.token()
	require.NoError(t, w.Applying(ctx, run.WorkspaceID, token, []string{"t.a"}))
	require.Equal(t, []string{"t.a"}, w.unsure(run.WorkspaceID))
	w.exec("UPDATE jobs SET state = 'done', finished_at = now()")
	w.exec("UPDATE workspaces SET state = 'deleted', deleted_at = now() WHERE id = $1", run.WorkspaceID)
	require.Nil(t, w.unsure(run.WorkspaceID))
	w.exec("DELETE FROM workspaces WHERE id = $1", run.WorkspaceID)
	require.Nil(t, w.unsure(run.WorkspaceID), "nor when its row is purged")
	_, err := w.BeginAlone(ctx, run.WorkspaceID, run.Workspace, 1)
	require.NoError(t, err)
	require.Nil(t, w.unsure(run.WorkspaceID), "nor when its orphan is looked at")
}

// What may be left of a check is listed for a week: there is no workspace that a person could end.
func TestApplying_check(t *testing.T) {
	t.Parallel()
	w, ctx, id := newWorld(t), t.Context(), uuid.New()
	begin := func() string {
		t.Helper()
		c, err := w.BeginAlone(ctx, id, "check-x", 1)
		require.NoError(t, err)
		return c.Token
	}
	require.NoError(t, w.Applying(ctx, id, begin(), []string{"t.a"}))
	begin()
	require.Equal(t, []string{"t.a"}, w.unsure(id))
	w.exec("UPDATE terraform_runs SET creating_at = now() - interval '167 hours'")
	require.Equal(t, []string{"t.a"}, w.unsure(id))
	w.exec("UPDATE terraform_runs SET creating_at = now() - interval '169 hours'")
	require.Nil(t, w.unsure(id))
}

// Output is read on from any place, and the oldest of it goes.
func TestOutput(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	run, token := w.token()
	id := run.WorkspaceID
	read := func(after int64) (string, int64) {
		t.Helper()
		text, end, err := w.Output(ctx, id, after)
		require.NoError(t, err)
		return text, end
	}
	text, end := read(0)
	require.Empty(t, text)
	require.NoError(t, w.AppendOutput(ctx, id, token, "one\n"))
	require.NoError(t, w.AppendOutput(ctx, id, token, ""))
	text, end = read(end)
	require.Equal(t, "one\n", text)
	require.NoError(t, w.AppendOutput(ctx, id, token, "two \x00\xff\n"))
	text, _ = read(end)
	require.Equal(t, "two \uFFFD\uFFFD\n", text)
	text, _ = read(0)
	require.Equal(t, "one\ntwo \uFFFD\uFFFD\n", text)

	piece := strings.Repeat("x", states.MaxOutput/4)
	for range 5 {
		require.NoError(t, w.AppendOutput(ctx, id, token, piece))
	}
	text, end = read(0)
	require.Equal(t, strings.Repeat(piece, 4), text)
	require.NoError(t, w.AppendOutput(ctx, id, token, "begin"+strings.Repeat("y", states.MaxOutput)))
	text, _ = read(end)
	require.Equal(t, strings.Repeat("y", states.MaxOutput), text)
	text, _ = read(0)
	require.Len(t, text, states.MaxOutput)

	w.token()
	require.ErrorIs(t, w.AppendOutput(ctx, id, token, "late"), states.ErrOver)
	w.exec("DELETE FROM terraform_runs")
	text, _ = read(0)
	require.Empty(t, text)
}
