package prebuilds

import (
	"encoding/base32"
	"io"
	"strings"

	"golang.org/x/xerrors"
)

var nameEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Name makes the name of a new prebuild from 9 random bytes: 24 characters, safe as a file name and a DNS label (C12).
// The names in use are not known here; on a collision, ask again. An error is that of the source.
func Name(random io.Reader) (string, error) {
	var b [9]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", xerrors.Errorf("read random bytes of name: %w", err)
	}
	return "prebuild-" + nameEncoding.EncodeToString(b[:]), nil
}

// IsName says whether Name makes names that look so: nothing else is one of a workspace.
func IsName(text string) bool {
	digits, ok := strings.CutPrefix(text, "prebuild-")
	b, err := nameEncoding.DecodeString(digits)
	return ok && err == nil && len(b) == 9 && nameEncoding.EncodeToString(b) == digits
}
