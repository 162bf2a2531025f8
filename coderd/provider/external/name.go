package external

import (
	"encoding/base32"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

var (
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	idCode    = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
)

const (
	idLength    = 26 // characters of a workspace's id
	longestName = 63 - 1 - idLength
)

// checkName refuses what would not fit the provider's name, which is a DNS label.
func checkName(name string) error {
	if len(name) > longestName || !validName.MatchString(name) {
		return provider.Permanent(xerrors.Errorf("name %q is not up to %d lower-case letters, digits and hyphens", name,
			longestName))
	}
	return nil
}

// resourceName is what the workspace is called at the provider.
func resourceName(name string, workspaceID uuid.UUID) string {
	return name + "-" + idCode.EncodeToString(workspaceID[:])
}

// parseResourceName takes a name apart again. It is false for one that resourceName did not make.
func parseResourceName(s string) (name string, workspaceID uuid.UUID, ok bool) {
	s = strings.ToLower(s) // some clouds shout
	if len(s) < idLength+2 {
		return "", uuid.Nil, false
	}
	name, code := s[:len(s)-idLength-1], s[len(s)-idLength:]
	raw, err := idCode.DecodeString(code)
	if err != nil || checkName(name) != nil {
		return "", uuid.Nil, false
	}
	copy(workspaceID[:], raw)
	return name, workspaceID, resourceName(name, workspaceID) == s
}
