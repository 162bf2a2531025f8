package modules_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/modules"
)

// directory is one with files; those whose names end in .sh are executable.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o700
		}
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
	return dir
}

func pack(t *testing.T, dir string) []byte {
	t.Helper()
	archive, err := modules.Pack(dir)
	require.NoError(t, err)
	return archive
}

// What Pack writes Read returns, without what is not part of a module.
func TestPack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", 40)
	archive := pack(t, directory(t, map[string]string{
		"main.tf": "main", "sub/x.tf": "x", "sub-a/y.tf": "y", "sub/run.sh": "run", "ä.txt": "", ".terraform.lock.hcl": "lock",
		long + "/" + long + "/z": "z",
		".git/config":            "", ".terraform/providers/p": "", ".terraform.tfstate.lock.info": "", "terraform.tfstate": "",
		"terraform.tfstate.backup": "", "sub/terraform.tfstate.d/a/b": "",
	}))
	files, err := modules.Read(archive)
	require.NoError(t, err)
	require.Equal(t, []modules.File{
		{Name: ".terraform.lock.hcl", Content: []byte("lock")},
		{Name: long + "/" + long + "/z", Content: []byte("z")},
		{Name: "main.tf", Content: []byte("main")},
		{Name: "sub-a/y.tf", Content: []byte("y")},
		{Name: "sub/run.sh", Content: []byte("run"), Executable: true},
		{Name: "sub/x.tf", Content: []byte("x")},
		{Name: "ä.txt", Content: []byte{}},
	}, files)
}

// The same files have the same digest, whatever their times and permissions are. It never changes: versions of templates name it.
func TestPack_sameDigest(t *testing.T) {
	t.Parallel()
	files := map[string]string{"main.tf": "a", "b/c.sh": "c"}
	one, other := directory(t, files), directory(t, files)
	require.NoError(t, os.Chtimes(filepath.Join(other, "main.tf"), time.Time{}, time.Unix(1, 0)))
	require.NoError(t, os.Chmod(filepath.Join(other, "main.tf"), 0o664))
	require.NoError(t, os.MkdirAll(filepath.Join(other, ".terraform", "x"), 0o700))
	require.Equal(t, pack(t, one), pack(t, other))
	digest := modules.Digest(pack(t, one))
	require.Equal(t, "sha256:b168b3f2cf119c7187cfccbd17780c1f98f8e1d465b0eec58f7b47d75a15466d", digest)
	require.True(t, modules.IsDigest(digest))
	require.NoError(t, os.Chmod(filepath.Join(other, "b", "c.sh"), 0o600))
	require.NotEqual(t, pack(t, one), pack(t, other), "a file is not executable any more")
}

func TestPack_refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		more  func(dir string) error
		says  string
	}{
		"no configuration": {map[string]string{"sub/main.tf": "", "x.txt": ""}, nil, "there is no *.tf file in the directory itself"},
		"a link": {
			map[string]string{"main.tf": "", "sub/x": ""},
			func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "sub", "link")) },
			`"sub/link" is a symbolic link, which is not uploaded`,
		},
		"a pipe": {
			map[string]string{"main.tf": ""},
			func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600) },
			`"pipe" is a pipe, socket or device`,
		},
		"Prewarm's": {map[string]string{"main.tf": "", "prewarm_override.tf": ""}, nil, `"prewarm_override.tf" is Prewarm's`},
		"too large": {
			map[string]string{"main.tf": "", "small": "x", "a/large": strings.Repeat("x", 6<<20), "larger": strings.Repeat("x", 7<<20)},
			nil,
			"the directory has 13.0 MiB; at most 10.0 MiB can be uploaded. The largest files are larger (7.0 MiB), a/large (6.0 MiB), small (0.0 KiB)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := directory(t, c.files)
			if c.more != nil {
				require.NoError(t, c.more(dir))
			}
			_, err := modules.Pack(dir)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := modules.Pack(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "there is no such directory")
}

// archive is a tar of entries, whatever they are.
func archive(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg {
			h.Mode = 0o644
		}
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(make([]byte, h.Size))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// sparse is an archive of a few blocks whose file says that it has so many bytes, most of which are holes.
func sparse(size int) []byte {
	var out bytes.Buffer
	entry := func(kind byte, name, content string) {
		var h [512]byte
		copy(h[:], name)
		copy(h[100:], "0000644\x00")
		copy(h[124:], fmt.Sprintf("%011o\x00", len(content)))
		copy(h[136:], "00000000000\x00")
		copy(h[148:], "        ")
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		sum := 0
		for _, b := range h {
			sum += int(b)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		out.Write(h[:])
		out.WriteString(content + strings.Repeat("\x00", (512-len(content)%512)%512))
	}
	var records string
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=main.tf", fmt.Sprintf("GNU.sparse.realsize=%d", size)} {
		n := len(r) + 4 // two digits, a space and a newline
		records += fmt.Sprintf("%d %s\n", n, r)
	}
	entry('x', "records", records)
	entry('0', "sparse", "0\n"+strings.Repeat("\x00", 510))
	out.Write(make([]byte, 1024))
	return out.Bytes()
}

func TestRead_refuses(t *testing.T) {
	t.Parallel()
	main := tar.Header{Typeflag: tar.TypeReg, Name: "main.tf", Size: 1}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	for name, c := range map[string]struct {
		archive []byte
		says    string
	}{
		"nothing":          {nil, "there is no *.tf file"},
		"no archive":       {bytes.Repeat([]byte("x"), 1024), "cannot be read"},
		"cut off":          {archive(t, main)[:512], "cannot be read"},
		"a link":           {archive(t, main, tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/etc"}), `"x" in the archive is no regular file`},
		"a hard link":      {archive(t, main, tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "main.tf"}), "is no regular file"},
		"a device":         {archive(t, main, tar.Header{Typeflag: tar.TypeBlock, Name: "x"}), "is no regular file"},
		"a directory":      {archive(t, main, tar.Header{Typeflag: tar.TypeDir, Name: "x/"}), "is no regular file"},
		"a traversal":      {archive(t, file("../x"), main), `"../x" in the archive is no path within the module`},
		"a hidden one":     {archive(t, file("a/../../x"), main), "is no path within the module"},
		"an absolute path": {archive(t, file("/etc/x"), main), "is no path within the module"},
		"a dot":            {archive(t, file("./x"), main), "is no path within the module"},
		"twice":            {archive(t, main, main), "each once"},
		"not sorted":       {archive(t, main, file("a")), "paths must be sorted"},
		"below a file":     {archive(t, main, file("x"), file("x/y")), `"x/y" in the archive is below a file`},
		"a state":          {archive(t, main, file("terraform.tfstate")), "is not part of a module"},
		"plugins":          {archive(t, file(".terraform/providers/x"), main), "is not part of a module"},
		"Prewarm's":        {archive(t, main, file("prewarm_override.tf")), "is Prewarm's"},
		"holes":            {sparse(1 << 40), "the files of the archive have more than 10485760 bytes"},
		"too large":        {make([]byte, modules.MostBytes+1), "at most 10485760 can be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := modules.Read(c.archive)
			require.ErrorContains(t, err, c.says)
			var refused *modules.Error
			require.ErrorAs(t, err, &refused)
		})
	}
	_, err := modules.Read(archive(t, main))
	require.NoError(t, err)
	files, err := modules.Read(sparse(3))
	require.NoError(t, err)
	require.Equal(t, []modules.File{{Name: "main.tf", Content: make([]byte, 3)}}, files, "so that the one with holes is refused for its size")
}

const document = `# é
providers:
  - {name: tf, kind: terraform}
templates:
  - name: plain
    provider: tf
    spec:
      module: ./a b # kept
      outputs: {}
  - {name: é, provider: tf, spec: {"module": "./c", outputs: {}}} # é
  - name: single
    provider: other
    spec: {module: './it''s'}
  - name: files
    provider: tf
    spec: {module: {main.tf: x}}
  - name: done
    provider: tf
    spec: {module: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
  - name: number
    spec: {module: 7}
`

// Only the text is replaced; lines and columns before it stay.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, source := range []string{document, strings.ReplaceAll(document, "\n", "\r\n")} {
		places, kinds := modules.Places(source)
		require.Equal(t, map[string]string{"tf": "terraform"}, kinds)
		require.Equal(t, []modules.Place{
			{Provider: "tf", Text: "./a b", Line: 8, Column: 15},
			{Provider: "tf", Text: "./c", Line: 10, Column: 46},
			{Provider: "other", Text: "./it's", Line: 13, Column: 20},
		}, places)
		got := source
		for _, p := range places {
			var ok bool
			got, ok = modules.Replace(got, p, "NEW")
			require.True(t, ok, "%+v", p)
		}
		require.Equal(t, strings.NewReplacer("./a b", "NEW", `"./c"`, "NEW", "'./it''s'", "NEW").Replace(source), got)
	}
}

func TestPlaces_unreadable(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"", "module", "module: [", "templates: {module", "templates: [{spec: {module: |\n", "\x00module"} {
		places, _ := modules.Places(source)
		require.Empty(t, places, source)
	}
	folded := "templates:\n  - spec:\n      module: ./a\n        b\n"
	places, _ := modules.Places(folded)
	require.Len(t, places, 1)
	got, ok := modules.Replace(folded, places[0], "NEW")
	require.False(t, ok)
	require.Equal(t, folded, got)
}
