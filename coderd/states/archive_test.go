package states_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/states"
)

// archive is that of a directory with one file.
func archive(t *testing.T, main string) (raw []byte, digest string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(main), 0o600))
	raw, err := modules.Pack(dir)
	require.NoError(t, err)
	return raw, modules.Digest(raw)
}

// organization makes one.
func (w *world) organization(name string) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	w.exec("INSERT INTO organizations (id, name, created_at) VALUES ($1, $2, now())", id, name)
	return id
}

// An archive is stored once for each organization. What another has, an organization cannot use, whatever it knows.
func TestStoreArchive(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	raw, digest := archive(t, "a")
	ours, theirs := w.organization("ours"), w.organization("theirs")
	is, stored, err := w.StoreArchive(ctx, w.Store, ours, digest, raw)
	require.NoError(t, err)
	require.True(t, stored)
	require.Equal(t, digest, is.Digest)
	require.EqualValues(t, len(raw), is.Size)
	again, stored, err := w.StoreArchive(ctx, w.Store, ours, digest, raw)
	require.NoError(t, err)
	require.False(t, stored)
	require.Equal(t, is, again)
	shown, err := w.ShowArchive(ctx, ours, digest)
	require.NoError(t, err)
	require.Equal(t, is, shown)
	has, err := w.UseArchive(ctx, ours, digest)
	require.NoError(t, err)
	require.True(t, has)

	_, err = w.ShowArchive(ctx, theirs, digest)
	require.ErrorIs(t, err, states.ErrNoArchive)
	has, err = w.UseArchive(ctx, theirs, digest)
	require.NoError(t, err)
	require.False(t, has)
	_, stored, err = w.StoreArchive(ctx, w.Store, theirs, digest, raw)
	require.NoError(t, err)
	require.True(t, stored)

	read, err := w.Archive(ctx, digest)
	require.NoError(t, err)
	require.Equal(t, raw, read)
	_, err = w.Archive(ctx, "sha256:none")
	require.ErrorIs(t, err, states.ErrNoArchive)
}

// What is no archive of a module, or another one than it is said to be, is not stored.
func TestStoreArchive_refuses(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	ours := w.organization("ours")
	raw, _ := archive(t, "a")
	_, other := archive(t, "b")
	_, _, err := w.StoreArchive(ctx, w.Store, ours, other, raw)
	require.ErrorIs(t, err, states.ErrDigest)
	bad := []byte("no archive")
	_, _, err = w.StoreArchive(ctx, w.Store, ours, modules.Digest(bad), bad)
	var refused *modules.Error
	require.ErrorAs(t, err, &refused)
	var n int
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM terraform_modules").Scan(&n))
	require.Zero(t, n)
}

// An organization has a bounded number of bytes that no template names. What one names does not count, and what others have neither.
func TestStoreArchive_bounded(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	var ours uuid.UUID
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT organization_id FROM templates LIMIT 1").Scan(&ours))
	theirs := w.organization("theirs")
	w.exec("ALTER TABLE terraform_modules DROP CONSTRAINT terraform_modules_check")
	fill := func(organization uuid.UUID, n int) (last string) {
		for i := range n {
			last = fmt.Sprintf("sha256:%064x", i)
			w.exec("INSERT INTO terraform_modules VALUES ($1, $2, 'x', $3, now(), now())", organization, last, modules.MostBytes)
		}
		return last
	}
	last := fill(ours, states.MaxUnused/modules.MostBytes)
	fill(theirs, 1)
	raw, digest := archive(t, "a")
	_, _, err := w.StoreArchive(ctx, w.Store, ours, digest, raw)
	require.ErrorIs(t, err, states.ErrUnused)
	_, stored, err := w.StoreArchive(ctx, w.Store, theirs, digest, raw)
	require.NoError(t, err)
	require.True(t, stored)

	w.exec("UPDATE template_versions SET spec = jsonb_build_object('module', $1::text)", last)
	_, stored, err = w.StoreArchive(ctx, w.Store, ours, digest, raw)
	require.NoError(t, err)
	require.True(t, stored)
}
