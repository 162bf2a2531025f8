package runners_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/seal"
)

// Each file of a configuration is read once. What was not read yet is kept, sealed, for ten minutes, and nothing after the last.
func TestFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWorld(t, 1)
	w.cloud.files = true
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("one:b25lb25lb25lb25lb25lb25lb25lb25lb25lb25lb24=\n"), 0o600))
	w.service.Keys = seal.Open(path, false, quartz.NewReal())
	kept := "SELECT files IS NOT NULL FROM forge_runners WHERE workspace_id = '"

	it, beside := w.waiting("starting"), w.waiting("starting") // they start at the same time
	for n, name := range []string{".credentials", ".runner", ".credentials_rsaparams"} {
		for _, reader := range []ws{it, beside} {
			file, err := w.service.File(ctx, reader.id, 1, name)
			require.NoError(t, err, name)
			require.Equal(t, []string{"2", "1", "3"}[n], string(file))
			require.NoError(t, w.service.Settle(ctx))
			_, err = w.service.File(ctx, reader.id, 1, name)
			require.ErrorIs(t, err, runners.ErrHandedOut, "each is read once")
		}
	}
	require.Equal(t, "false", w.text(kept+it.id.String()+"'"))
	require.ElementsMatch(t, []string{it.name, beside.name}, w.cloud.names(), "each is registered once")
	_, err := w.service.File(ctx, it.id, 1, "passwd")
	require.ErrorIs(t, err, runners.ErrNoFile)

	late := w.waiting("starting")
	_, err = w.service.File(ctx, late.id, 1, ".runner")
	require.NoError(t, err)
	for _, of := range []struct{ age, kept string }{{"9 minutes", "true"}, {"630 seconds", "false"}} {
		w.exec("UPDATE forge_runners SET handed_out_at = now() - $2::text::interval WHERE workspace_id = $1", late.id, of.age)
		require.NoError(t, w.service.Settle(ctx))
		require.Equal(t, of.kept, w.text(kept+late.id.String()+"'"), of.age)
	}
	_, err = w.service.File(ctx, late.id, 1, ".credentials")
	require.ErrorIs(t, err, runners.ErrHandedOut)
}
