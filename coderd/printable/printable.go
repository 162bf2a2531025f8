// Package printable makes text from elsewhere safe to show in a terminal or a log: what could move the cursor, forge a line
// or turn the direction of writing is written as an escape that a person sees.
package printable

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/xerrors"
)

// Text returns s with control characters and invisible ones of Unicode as escapes, such as \x1b and \u202e. Ends of lines
// and tabs stay.
func Text(s string) string {
	if !strings.ContainsFunc(s, hostile) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		b.WriteString(show(r, s[i:i+size]))
	}
	return b.String()
}

// hostile characters are controls (Cc) and those that are not seen but change how others are (Cf): U+202E, for example,
// shows what follows from right to left. The joiner within emoji is harmless.
func hostile(r rune) bool {
	const joiner = '\u200d'
	return r != '\n' && r != '\t' && r != joiner && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

func show(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return `\x` + strconv.FormatUint(uint64(raw[0])|0x100, 16)[1:]
	case hostile(r):
		quoted := strconv.QuoteRuneToASCII(r)
		return quoted[1 : len(quoted)-1]
	}
	return raw
}

// JSON returns a writer of whole JSON documents, in whose texts it escapes what Text does; a JSON encoder leaves much of it.
func JSON(to io.Writer) io.Writer { return jsonWriter{to} }

type jsonWriter struct{ to io.Writer }

func (w jsonWriter) Write(p []byte) (int, error) {
	document := string(p)
	if strings.ContainsFunc(document, hostile) {
		var b strings.Builder
		for _, r := range document {
			if !hostile(r) {
				b.WriteRune(r)
				continue
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				b.WriteString(`\u` + strconv.FormatUint(uint64(unit)|0x10000, 16)[1:])
			}
		}
		document = b.String()
	}
	if _, err := io.WriteString(w.to, document); err != nil {
		return 0, xerrors.Errorf("write JSON: %w", err)
	}
	return len(p), nil
}

// Writer writes what it is given to another writer as Text does, but lets colours pass. A character that is cut off at the
// end of one write is held until the next.
type Writer struct {
	To   io.Writer
	held []byte
}

// maxColour bounds how long a sequence for a colour may be, in bytes.
const maxColour = 32

// Write writes p; the count is that of p's bytes, as the caller expects it.
func (w *Writer) Write(p []byte) (int, error) {
	s := string(w.held) + string(p)
	var b strings.Builder
	for len(s) > 0 {
		n, whole := colour(s)
		if !whole || !utf8.FullRuneInString(s) {
			break // the rest is to come
		}
		if n > 0 {
			b.WriteString(s[:n])
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(s)
			if r == '\r' && strings.HasPrefix(s, "\r\n") {
				n = 2
				b.WriteString(s[:n])
			} else {
				b.WriteString(show(r, s[:n]))
			}
		}
		s = s[n:]
	}
	w.held = []byte(s)
	if _, err := io.WriteString(w.To, b.String()); err != nil {
		return 0, xerrors.Errorf("write text: %w", err)
	}
	return len(p), nil
}

// Close writes what is held. It does not close the other writer.
func (w *Writer) Close() error {
	rest := Text(string(w.held))
	w.held = nil
	if _, err := io.WriteString(w.To, rest); err != nil {
		return xerrors.Errorf("write text: %w", err)
	}
	return nil
}

// colour returns the length of the sequence for a colour that s begins with, 0 for none; not whole where more must come
// before that is known.
func colour(s string) (n int, whole bool) {
	if s[0] != 0x1b {
		return 0, s != "\r" // which may be the first half of the end of a line
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case i == 1 && c == '[':
		case i > 1 && (c == ';' || c >= '0' && c <= '9') && i < maxColour:
		case i > 1 && c == 'm':
			return i + 1, true
		default:
			return 0, true
		}
	}
	return 0, false
}
