package program_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/program"
)

// build makes a program for an architecture.
func build(t *testing.T, arch string) string {
	t.Helper()
	dir := t.TempDir()
	source, file := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	cmd := exec.Command("go", "build", "-o", file, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// A program runs on the machines of its kind, by all names that these have, and is refused for good on others.
func TestRunsOn(t *testing.T) {
	t.Parallel()
	file := build(t, "amd64")
	p, err := program.Open(file)
	require.NoError(t, err)
	defer p.Close()
	for _, machine := range []string{"x86_64", "amd64", "a kind to come"} {
		require.NoError(t, p.RunsOn(machine), machine)
	}
	for _, machine := range []string{"aarch64", "armv7l", "riscv64"} {
		err := p.RunsOn(machine)
		require.ErrorContains(t, err, "agent_binary ("+file+"): it is for EM_X86_64, and the machine is "+machine)
		require.True(t, provider.IsPermanent(err))
	}
}

// What is no static program is refused for good; a file that is missing may come.
func TestOpen(t *testing.T) {
	t.Parallel()
	for file, says := range map[string]string{"/bin/sh": "CGO_ENABLED=0", "/etc/passwd": "read program"} {
		_, err := program.Open(file)
		require.ErrorContains(t, err, says)
		require.True(t, provider.IsPermanent(err))
	}
	_, err := program.Open("/no/such")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.False(t, provider.IsPermanent(err))
}

// A hash is that of the file that is there now.
func TestSums(t *testing.T) {
	t.Parallel()
	var sums program.Sums
	file := build(t, "amd64")
	for range 2 {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		want := sha256.Sum256(content)
		for range 2 {
			p, err := program.Open(file)
			require.NoError(t, err)
			got, err := sums.Of(p)
			require.NoError(t, err)
			require.Equal(t, hex.EncodeToString(want[:]), got)
			require.NoError(t, p.Close())
		}
		require.NoError(t, os.WriteFile(file, append(content, 'x'), 0o600))
	}
}
