package templates_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func versionOf(spec int) string {
	return fmt.Sprintf("providers: [{name: here, kind: fake}]\ntemplates: [{name: a, provider: here, spec: {command: [x], n: %d}, "+
		"presets: [{name: p, parameters: {cpu: 2}, prebuilds: {instances: 3}}]}]", spec)
}

func active(t *testing.T, b bench) int32 {
	t.Helper()
	var n int32
	require.NoError(t, b.Store.Pool.QueryRow(context.Background(), `SELECT v.number FROM templates t
		JOIN template_versions v ON v.id = t.active_version_id WHERE t.name = 'a'`).Scan(&n))
	return n
}

// TestC7_rollback: the version active before is active again, with the pool that it had; or the one that is named.
func TestC7_rollback(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.apply(t, versionOf(1))
	_, err := b.Rollback(ctx, b.by, "a", 0, "")
	require.ErrorIs(t, err, auth.ErrConflict)
	require.ErrorContains(t, err, `template "a" has no version before 1: there is nothing to go back to`)
	first := b.preset(t, "a", "p")
	b.apply(t, versionOf(2))
	second := b.preset(t, "a", "p")
	require.NotEqual(t, first.PoolKey, second.PoolKey)
	require.True(t, second.RolloutAt.After(first.RolloutAt), "a rollout begins")
	b.apply(t, versionOf(3))

	done, err := b.Rollback(ctx, b.by, "a", 0, "broken")
	require.NoError(t, err)
	require.EqualValues(t, 3, done.From)
	require.EqualValues(t, 2, done.To)
	require.EqualValues(t, 2, active(t, b))
	require.Equal(t, second.PoolKey, b.preset(t, "a", "p").PoolKey, "its prebuilds are current again")
	require.Equal(t, 1, b.count(t, "audit_log WHERE action = 'template.rollback' AND reason = 'broken'"))

	done, err = b.Rollback(ctx, b.by, "a", 1, "")
	require.NoError(t, err)
	require.EqualValues(t, 1, done.To)
	require.Equal(t, first.PoolKey, b.preset(t, "a", "p").PoolKey)
	_, err = b.Rollback(ctx, b.by, "a", 1, "")
	require.ErrorContains(t, err, `version 1 of template "a" is the active one already`)
	_, err = b.Rollback(ctx, b.by, "a", 9, "")
	require.ErrorIs(t, err, auth.ErrNotFound)
	_, err = b.Rollback(ctx, b.by, "b", 0, "")
	require.ErrorContains(t, err, `there is no template "b"`)
	b.apply(t, versionOf(3))
	require.EqualValues(t, 3, active(t, b), "an apply says what is, again")
}

// TestC15_invalidate: each invalidation makes all prebuilds outdated, and an apply of the same file does not bring them back.
func TestC15_invalidate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.apply(t, versionOf(1))
	keys := map[string]bool{b.preset(t, "a", "p").PoolKey.String(): true}
	for range 3 {
		id, err := b.Invalidate(ctx, b.by, "a", "p", "leaky")
		require.NoError(t, err)
		row := b.preset(t, "a", "p")
		require.Equal(t, row.TemplateID, id)
		require.False(t, keys[row.PoolKey.String()])
		keys[row.PoolKey.String()] = true
		require.Empty(t, b.apply(t, versionOf(1)).Changes)
		require.Equal(t, row.PoolKey, b.preset(t, "a", "p").PoolKey)
	}
	require.Equal(t, 3, b.count(t, "audit_log WHERE action = 'preset.invalidate' AND target_name = 'a/p'"))
	_, err := b.Invalidate(ctx, b.by, "a", "q", "")
	require.ErrorContains(t, err, `template "a" has no preset "q"`)
}

// TestC8_reset: a reset ends the streaks of a preset, and its rollout begins anew.
func TestC8_reset(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.apply(t, versionOf(1))
	before := b.preset(t, "a", "p")
	_, err := b.Store.Pool.Exec(ctx, `INSERT INTO preset_failures (preset_id, pool_key, streak, permanent, last_error, last_at)
		VALUES ($1, $2, 3, 3, 'no', now())`, before.ID, before.PoolKey)
	require.NoError(t, err)
	streak, err := viewsdb.New(b.Store).FailureStreak(ctx, before.ID)
	require.NoError(t, err)
	require.EqualValues(t, 3, streak.Streak)
	_, err = b.Reset(ctx, b.by, "a", "p", "repaired")
	require.NoError(t, err)
	_, err = viewsdb.New(b.Store).FailureStreak(ctx, before.ID)
	require.True(t, database.NoRows(err))
	after := b.preset(t, "a", "p")
	require.True(t, after.RolloutAt.After(before.RolloutAt))
	require.Equal(t, before.PoolKey, after.PoolKey, "the prebuilds stay")
	require.Equal(t, 1, b.count(t, "audit_log WHERE action = 'preset.reset' AND before = '{\"failures\": 3}'"))
}

func (b bench) count(t *testing.T, from string) (n int) {
	t.Helper()
	require.NoError(t, b.Store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}
