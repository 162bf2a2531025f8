package api_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// moduleArchive is a directory with one file, as it is uploaded.
func moduleArchive(t *testing.T, main string) (archive []byte, digest string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(main), 0o600))
	archive, err := modules.Pack(dir)
	require.NoError(t, err)
	return archive, modules.Digest(archive)
}

func (w *world) modules() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.store.Pool.QueryRow(w.t.Context(), "SELECT count(*) FROM terraform_modules").Scan(&n))
	return n
}

// A directory is stored once, on the record. Members neither store one nor look for one, and another organization has its own.
func TestModules(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	archive, digest := moduleArchive(t, "a")
	elsewhere := uuid.New()
	for _, sql := range []string{
		fmt.Sprintf("INSERT INTO organizations (id, name, created_at) VALUES ('%s', 'elsewhere', now())", elsewhere),
		fmt.Sprintf("INSERT INTO memberships (organization_id, user_id, role) SELECT '%s', user_id, role FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.name = 'admin'", elsewhere),
	} {
		_, err := w.store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	admin := w.as("admin")
	_, err := admin.Module(ctx, digest)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
	path := "/api/v1/modules/" + digest
	first := w.call(w.token["admin"], http.MethodPut, path, string(archive))
	require.Equal(t, http.StatusCreated, first.status, first.body)
	again := w.call(w.token["owner"], http.MethodPut, path, string(archive))
	require.Equal(t, http.StatusOK, again.status, again.body)
	require.JSONEq(t, first.body, again.body)
	uploaded, err := admin.UploadModule(ctx, digest, archive)
	require.NoError(t, err)
	is, err := admin.Module(ctx, digest)
	require.NoError(t, err)
	require.Equal(t, uploaded, is)
	require.Equal(t, digest, is.Digest)
	require.EqualValues(t, len(archive), is.Size)
	log, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Action: "module.upload"})
	require.NoError(t, err)
	require.Len(t, log.Entries, 1)
	require.Equal(t, "admin", log.Entries[0].Actor)

	for _, user := range []string{"member", "auditor"} {
		require.Equal(t, http.StatusForbidden, w.call(w.token[user], http.MethodPut, path, string(archive)).status)
		require.Equal(t, http.StatusForbidden, w.call(w.token[user], http.MethodGet, path, "").status)
	}
	there := w.as("admin")
	there.Organization = "elsewhere"
	_, err = there.Module(ctx, digest)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err), "%v", err)
	require.Equal(t, 1, w.modules())
	_, err = there.UploadModule(ctx, digest, archive)
	require.NoError(t, err)
	require.Equal(t, 2, w.modules())
}

// What is no archive of a module is refused, and nothing of it is stored.
func TestModules_hostile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pack := func(entries ...tar.Header) []byte {
		var out bytes.Buffer
		archive := tar.NewWriter(&out)
		for _, h := range append(entries, tar.Header{Typeflag: tar.TypeReg, Name: "main.tf"}) {
			require.NoError(t, archive.WriteHeader(&h))
		}
		require.NoError(t, archive.Close())
		return out.Bytes()
	}
	good, digest := moduleArchive(t, "a")
	for name, c := range map[string]struct {
		archive []byte
		digest  string // empty: its own
		status  int
		says    string
	}{
		"another digest":   {good, modules.Digest(nil), http.StatusUnprocessableEntity, "the archive has another digest"},
		"no digest":        {good, "sha256:1", http.StatusUnprocessableEntity, "expected string to match pattern"},
		"cut off":          {good[:512], digest, http.StatusUnprocessableEntity, "the archive has another digest"},
		"nothing":          {nil, digest, http.StatusBadRequest, "request body is required"},
		"no archive":       {bytes.Repeat([]byte("x"), 1024), "", http.StatusUnprocessableEntity, "the archive cannot be read"},
		"a link":           {pack(tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc/passwd"}), "", http.StatusUnprocessableEntity, "no regular file"},
		"a hard link":      {pack(tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "/etc/passwd"}), "", http.StatusUnprocessableEntity, "no regular file"},
		"a traversal":      {pack(tar.Header{Typeflag: tar.TypeReg, Name: "../x"}), "", http.StatusUnprocessableEntity, "no path within the module"},
		"an absolute path": {pack(tar.Header{Typeflag: tar.TypeReg, Name: "/etc/x"}), "", http.StatusUnprocessableEntity, "no path within the module"},
		"too large":        {make([]byte, modules.MostBytes+1), "", http.StatusRequestEntityTooLarge, ""},
		"of 50 MiB":        {make([]byte, 50<<20), "", http.StatusRequestEntityTooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.digest == "" {
				c.digest = modules.Digest(c.archive)
			}
			a := w.call(w.token["owner"], http.MethodPut, "/api/v1/modules/"+c.digest, string(c.archive))
			require.Equal(t, c.status, a.status, a.body)
			require.Contains(t, a.body, c.says)
			require.Zero(t, w.modules())
		})
	}
}

// The largest that is allowed goes through.
func TestModules_largest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	content := make([]byte, modules.MostBytes-512-1024) // a header, and the end
	require.NoError(t, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "main.tf", Size: int64(len(content))}))
	_, err := archive.Write(content)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.Equal(t, modules.MostBytes, out.Len())
	_, err = w.as("owner").UploadModule(t.Context(), modules.Digest(out.Bytes()), out.Bytes())
	require.NoError(t, err)
	require.Equal(t, 1, w.modules())
}
