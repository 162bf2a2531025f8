package terraform_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
)

func executable(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	programtest.Write(t, name, []byte("#!/bin/sh\n"+text+"\n"), mode)
}

// What is too old, or is none of them, is refused before anything is made with it, and so is what runs cannot start.
func TestNew_version(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Regexp(t, `^\d+\.\d+\.\d+`, w.Runner.Version)
	for says, wrong := range map[string]string{
		`{"terraform_version": "1.6.0"}`:        "",
		`{"terraform_version": "2.0.0-alpha1"}`: "",
		`{"terraform_version": "1.5.7"}`:        "is version 1.5.7, which is too old: install 1.6 or newer",
		`{"terraform_version": "0.15.0"}`:       "too old",
		`{}`:                                    "is it one of them?",
		`Terraform v1.11.4`:                     "is it one of them?",
	} {
		o := w.Options
		o.Program = filepath.Join(w.root, fmt.Sprintf("says-%x", says))
		executable(t, o.Program, fmt.Sprintf("test \"$*\" = 'version -json' && echo '%s'", says), 0o755)
		_, err := terraform.New(t.Context(), o)
		if wrong == "" {
			require.NoError(t, err, says)
			continue
		}
		require.ErrorContains(t, err, wrong, says)
		require.ErrorContains(t, err, o.Program)
	}
	o := w.Options
	o.Program = filepath.Join(w.root, "fails")
	executable(t, o.Program, "exit 3", 0o700) // for root alone, where that is who tests
	_, err := terraform.New(t.Context(), o)
	require.ErrorContains(t, err, "for its version")
}
