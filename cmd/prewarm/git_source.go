package main

import (
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
)

// gitSource is a commit of a repository, or a directory of it.
type gitSource struct {
	url       string // as git reads it
	directory string // within the repository; . is the whole
	commit    string // in full
}

var (
	commitRule = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	scpRule    = regexp.MustCompile(`^\w[\w.-]*@\w[\w.-]*:[^:-][^:]*$`) // git@example.com:team/modules.git
)

// parseGit reads the source of a module as Terraform writes it: git::URL//DIRECTORY?ref=COMMIT.
func parseGit(source string) (g gitSource, err error) {
	rest, query, _ := strings.Cut(strings.TrimPrefix(source, modules.GitPrefix), "?")
	arguments, err := url.ParseQuery(query)
	if err != nil {
		return g, xerrors.Errorf("what follows the ? cannot be read: write ?ref=COMMIT")
	}
	for name := range arguments {
		if name != "ref" {
			return g, xerrors.Errorf("%q is not known: only ref may follow the ?", name)
		}
	}
	if g.commit = arguments.Get("ref"); !commitRule.MatchString(g.commit) {
		return g, xerrors.Errorf("name the commit in full: ?ref=COMMIT, as git rev-parse prints it. A branch or a tag can move, and a version of a template cannot")
	}
	begin := strings.Index(rest, "://")
	scheme, at := "", 0
	if begin >= 0 {
		scheme, at = rest[:begin], begin+len("://")
	}
	g.url, g.directory = rest, "."
	if end := strings.Index(rest[at:], "//"); end >= 0 {
		g.url, g.directory = rest[:at+end], strings.Trim(rest[at+end:], "/")
	}
	if !fs.ValidPath(g.directory) {
		return g, xerrors.Errorf("%q is not a directory of a repository", g.directory)
	}
	switch {
	case begin < 0 && scpRule.MatchString(g.url):
		return g, nil
	case !slices.Contains([]string{"https", "http", "ssh", "file"}, scheme):
		return g, xerrors.Errorf("begin with git::https://, git::ssh://, git::file:// or git::USER@HOST:")
	}
	parsed, err := url.Parse(g.url)
	switch {
	case err != nil:
		return g, xerrors.Errorf("it is not a URL")
	case parsed.User != nil && (scheme != "ssh" || hasPassword(parsed.User)):
		return g, xerrors.Errorf("leave the user and the password out: git asks its credential helper for them")
	}
	return g, nil
}

// userinfo is all that may be a user or a password.
var userinfo = regexp.MustCompile(`://.*@`)

// withoutSecrets is a source for a message: of one in Git that cannot be read, less.
func withoutSecrets(source string) string {
	if !modules.InGit(source) {
		return source
	}
	if _, err := parseGit(source); err == nil {
		return source
	}
	rest, _, _ := strings.Cut(source, "?")
	return userinfo.ReplaceAllString(rest, "://***@")
}

func hasPassword(u *url.Userinfo) bool {
	_, has := u.Password()
	return has
}
