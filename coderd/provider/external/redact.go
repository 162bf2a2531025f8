package external

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// secrets are texts that must not get into messages.
type secrets []string

const (
	redacted = "[redacted]"
	// shortestSecret keeps a value such as "1" or "true" from turning messages into riddles.
	shortestSecret = 6
)

func (s *secrets) add(values ...string) {
	for _, v := range values {
		if v = strings.TrimSpace(v); len(v) >= shortestSecret {
			*s = append(*s, v)
		}
	}
}

var (
	// secretName is a name whose value is one to keep.
	secretName = regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|credential|authorization|api_?key|` +
		`access_?key|private_?key|account_?key|_key|cookie)$`)
	// assignment is a name and its value, in JSON, YAML, TOML, flags, URLs or logs.
	assignment = regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:passw(?:or)?d|passphrase|secret|token|credential|authorization|` +
		`api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|cookie)[a-z0-9_.-]*["']?\s*[:=]\s*)` +
		`(\[redacted\]|"[^"\n]*"|'[^'\n]*'|(?:bearer|basic)\s+\S+|[^\s,;&"'}\])]+)`)
	// Things that are secrets by their looks: a private key, a JSON web token, tokens of well-known services, whoever is
	// named after Bearer, and the password of a URL.
	looks = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)|` +
		`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?|` +
		`\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|pw_)[A-Za-z0-9_-]{8,}|` +
		`\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{20,}|` +
		`(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}|` +
		`://[^/\s:@]+:[^/\s@]+@`)
)

// redact takes out of text what is known to be secret, and what looks like it.
func (s secrets) redact(text string) string {
	known := slices.Clone(s)
	slices.SortFunc(known, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may contain another
	for _, secret := range known {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	text = looks.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "://") {
			return "://" + redacted + "@"
		}
		return redacted
	})
	return assignment.ReplaceAllString(text, "${1}"+redacted)
}

// secretsIn finds the values of names that sound secret in a configuration file of whatever format.
func secretsIn(content string) []string {
	return lists.Of(assignment.FindAllStringSubmatch(content, -1), func(match []string) string {
		return strings.Trim(match[2], `"'`)
	})
}
