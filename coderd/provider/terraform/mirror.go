package terraform

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/xerrors"
)

// settings have the providers of a module come from a mirror, and from nowhere else.
func settings(mirror string) []byte {
	return fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = \"%s\"\n  }\n}\n", mirror)
}

// checkMirror says what is wrong with a mirror. Its path stands in a file of Terraform's, and users of runs must be able to enter it.
func checkMirror(mirror string) error {
	if mirror == "" {
		return nil
	}
	if !filepath.IsAbs(mirror) || strings.ContainsAny(mirror, "\"\\$%\n\r") {
		return xerrors.Errorf("mirror: %q is no absolute path without quotes, backslashes, $ and %%", mirror)
	}
	info, err := os.Stat(mirror)
	if err != nil {
		return xerrors.Errorf("mirror: %w", err)
	}
	if !info.IsDir() {
		return xerrors.Errorf("mirror: %s is no directory. `terraform providers mirror` makes one", mirror)
	}
	if os.Geteuid() == 0 {
		return enterable("mirror", mirror)
	}
	return nil
}
