package database

import "strings"

// Text makes a text fit for PostgreSQL, which refuses NUL and broken UTF-8.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// TextAtMost is the beginning of a text, with so many bytes at the most.
func TextAtMost(s string, most int) string {
	if s = Text(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + " …"
	}
	return s
}
