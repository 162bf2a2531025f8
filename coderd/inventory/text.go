package inventory

import "strings"

// maxText bounds what is kept of what a provider says, in bytes.
const maxText = 2 << 10

// fit makes it fit for the database, which refuses NUL and broken UTF-8.
func fit(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + " …"
	}
	return s
}
