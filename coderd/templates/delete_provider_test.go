package templates_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const onCloud = "providers: [{name: cloud, kind: fake}, {name: other, kind: fake}]\n" + vmOnCloud

const vmOnCloud = `templates:
  - {name: vm, provider: cloud, spec: {command: [a]}, presets: [{name: p, prebuilds: {instances: 2}}]}
`

const vmOnOther = `templates:
  - {name: vm, provider: other, spec: {command: [a]}, presets: [{name: p, prebuilds: {instances: 2}}]}
`

func (b bench) deleteProvider(by auth.Identity, name string, force bool) error {
	return b.Store.InTx(context.Background(), database.TxOptions{Label: "delete provider"}, func(ctx context.Context, tx pgx.Tx) error {
		_, _, err := templates.DeleteProvider(ctx, tx, by, name, force)
		return err
	})
}

// A provider that templates use is deleted by force only, and nothing comes to use it afterwards, until it is applied again.
func TestDeleteProvider(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.apply(t, onCloud)
	require.ErrorContains(t, b.deleteProvider(b.by, "clouds", true), `there is no provider "clouds"`)

	before := b.dump(t)
	var refusal *auth.Refusal
	err := b.deleteProvider(b.by, "cloud", false)
	require.ErrorAs(t, err, &refusal)
	require.ErrorIs(t, err, auth.ErrConflict)
	require.ErrorContains(t, err, "is used by template vm (version 1)")
	require.Equal(t, before, b.dump(t), "a refusal changes nothing")
	foreign := b.by
	foreign.OrganizationID = [16]byte{1}
	err = b.deleteProvider(foreign, "cloud", false)
	require.ErrorContains(t, err, "is used by templates of other organizations (1)", "their names are their own")

	// Nothing uses it any more: its versions of the past may stay, and cannot be gone back to.
	b.apply(t, vmOnOther)
	require.NoError(t, b.deleteProvider(b.by, "cloud", false))
	require.NoError(t, b.deleteProvider(b.by, "cloud", false), "it is deleted already")
	_, err = b.try(vmOnCloud, false)
	require.ErrorContains(t, err, `provider "cloud" is deleted: declare it under providers`)
	_, err = b.Rollback(ctx, b.by, "vm", 0, "")
	require.ErrorContains(t, err, "provider cloud was deleted")

	// Applied again it is in use again; that is the owner's.
	admin := b
	admin.by.Role = database.RoleTemplateAdmin
	_, err = admin.try(onCloud, false)
	require.ErrorIs(t, err, auth.ErrForbidden)
	require.ErrorContains(t, err, "this file would change deleted")
	require.Equal(t, []string{"deleted: true -> false"}, b.apply(t, onCloud).Changes[0].Fields)
	_, err = b.Rollback(ctx, b.by, "vm", 0, "")
	require.NoError(t, err)
	require.ErrorContains(t, b.deleteProvider(b.by, "other", false), "is used by template vm (version 2)")
	require.NoError(t, b.deleteProvider(b.by, "other", true))

	var action, after string
	require.NoError(t, b.Store.Pool.QueryRow(ctx, `SELECT action, after - 'resources' FROM audit_log
		ORDER BY id DESC LIMIT 1`).Scan(&action, &after))
	require.Equal(t, string(auth.ActDeleteProvider), action)
	require.JSONEq(t, `{"forced": true, "templates": ["template vm (version 2)"]}`, after)
	pool, err := viewsdb.New(b.Store).PoolView(ctx, b.preset(t, "vm", "p").ID)
	require.NoError(t, err)
	require.True(t, pool.ProviderDeleted)
	require.Zero(t, pool.Desired)
}

// A provider that is retired is made anew by an apply, with nothing of before but its name and its kind.
func TestDeleteProvider_retired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.apply(t, "providers: [{name: cloud, kind: fake, maximum: 7}]")
	require.NoError(t, b.deleteProvider(b.by, "cloud", false))
	_, err := b.Store.Pool.Exec(ctx, "UPDATE providers SET emptied_at = prewarm_now(), confirmed_at = prewarm_now() WHERE name = 'cloud'")
	require.NoError(t, err)
	require.ErrorContains(t, b.deleteProvider(b.by, "cloud", true), `there is no provider "cloud"`)

	_, err = b.try("providers: [{name: cloud, kind: sim}]", false)
	require.ErrorContains(t, err, `provider "cloud" is of kind fake`)
	admin := b
	admin.by.Role = database.RoleTemplateAdmin
	_, err = admin.try("providers: [{name: cloud, kind: fake}]", false)
	require.ErrorIs(t, err, auth.ErrForbidden)
	require.Equal(t, "create", b.apply(t, "providers: [{name: cloud, kind: fake}]").Changes[0].Action)
	var confirmed, deleted bool
	require.NoError(t, b.Store.Pool.QueryRow(ctx, "SELECT confirmed_at IS NOT NULL, deleted_at IS NOT NULL OR emptied_at IS NOT NULL FROM providers WHERE name = 'cloud'").
		Scan(&confirmed, &deleted))
	require.False(t, confirmed, "somebody looks at it first")
	require.False(t, deleted)
}

// A deletion and an apply that begins to use the provider at that moment do not pass each other.
func TestDeleteProvider_besideAnApply(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.apply(t, "providers: [{name: cloud, kind: fake}]")
	tx, err := b.Store.Pool.Begin(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(ctx) })
	// The deletion has its lock, and has not committed; the apply has been checked by what was there before.
	_, err = templatesdb.New(tx).LockProviders(ctx, []string{"cloud"})
	require.NoError(t, err)
	require.NoError(t, templatesdb.New(tx).DeleteProvider(ctx, templatesdb.DeleteProviderParams{Name: "cloud"}))
	applied := make(chan error, 1)
	go func() { _, err := b.try(vmOnCloud, false); applied <- err }()
	waiting := func() (n int) {
		require.NoError(t, b.Store.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n))
		return n
	}
	coderdtest.Eventually(t, "the apply waits for it", func() bool { return waiting() > 0 })
	require.NoError(t, tx.Commit(ctx))
	require.ErrorContains(t, <-applied, "provider cloud was deleted")
}
