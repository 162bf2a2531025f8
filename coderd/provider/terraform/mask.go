package terraform

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"
)

const (
	redacted = "[redacted]"
	// shortestSecret keeps a value such as "1" from turning output into riddles.
	shortestSecret = 6
	maxOutput      = 4 << 20  // bytes of one command in the log; what is more is dropped
	maxLine        = 64 << 10 // bytes that are held back until their line ends
	tooMuch        = "\n[the rest of the output is left out]\n"
)

// mask hands lines on without secrets.
type mask struct {
	log     io.Writer
	tail    io.Writer // has the end, however much comes
	secrets []string  // the longest first: one may contain another
	line    []byte    // that has not ended yet
	left    int       // bytes that the log still takes
}

func newMask(log, tail io.Writer, secrets []string) *mask {
	m := &mask{log: log, tail: tail, left: maxOutput}
	for _, secret := range secrets {
		for line := range strings.Lines(secret) { // output is looked at line by line
			if line = strings.TrimSpace(line); len(line) >= shortestSecret {
				m.secrets = append(m.secrets, line)
			}
		}
	}
	slices.SortFunc(m.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return m
}

// Write never fails: a log that is away stops no run.
func (m *mask) Write(p []byte) (int, error) {
	m.line = append(m.line, p...)
	// What was held back has no end of a line, and may be long.
	if end := bytes.LastIndexByte(p, '\n'); end >= 0 {
		end += len(m.line) - len(p)
		m.pass(m.line[:end+1])
		m.line = append(m.line[:0], m.line[end+1:]...)
	}
	if len(m.line) > maxLine { // where it is cut, a secret may be: what is replaced is whole
		m.line = []byte(m.redact(m.line))
		cut := len(m.line) - m.longest()
		m.pass(m.line[:cut])
		m.line = append(m.line[:0], m.line[cut:]...)
	}
	return len(p), nil
}

// end hands on the last line, which may have no end.
func (m *mask) end() { m.pass(m.line) }

func (m *mask) pass(text []byte) {
	out := m.redact(text)
	_, _ = io.WriteString(m.tail, out)
	switch {
	case m.left == 0:
		return
	case len(out) >= m.left:
		out, m.left = out[:m.left]+tooMuch, 0
	default:
		m.left -= len(out)
	}
	_, _ = io.WriteString(m.log, out)
}

func (m *mask) redact(text []byte) string {
	out := string(text)
	for _, secret := range m.secrets {
		out = strings.ReplaceAll(out, secret, redacted)
	}
	return out
}

// longest is how many bytes of a secret may be at the end of a line that goes on.
func (m *mask) longest() int {
	if len(m.secrets) == 0 {
		return 0
	}
	return min(len(m.secrets[0]), len(m.line))
}
