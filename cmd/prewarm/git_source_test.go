package main

import (
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/modules"
)

func TestParseGit(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0123456789", 4)
	ref := "?ref=" + commit
	for source, want := range map[string]gitSource{
		"git::https://example.com/a/b.git" + ref:                 {url: "https://example.com/a/b.git", directory: "."},
		"git::https://example.com/a/b.git//vm/small" + ref:       {url: "https://example.com/a/b.git", directory: "vm/small"},
		"git::https://example.com/a/b.git//vm/" + ref:            {url: "https://example.com/a/b.git", directory: "vm"},
		"git::ssh://git@example.com:22/b.git//vm" + ref:          {url: "ssh://git@example.com:22/b.git", directory: "vm"},
		"git::git@example.com:a/b.git//vm" + ref:                 {url: "git@example.com:a/b.git", directory: "vm"},
		"git::file:///srv/modules.git//vm" + ref:                 {url: "file:///srv/modules.git", directory: "vm"},
		"git::https://example.com/b?ref=" + commit + commit[:24]: {url: "https://example.com/b", directory: ".", commit: commit + commit[:24]},
	} {
		got, err := parseGit(source)
		if want.commit == "" {
			want.commit = commit
		}
		if err != nil || got != want || !modules.InGit(source) {
			t.Errorf("%s: %v, %v", source, got, err)
		}
	}
	for source, want := range map[string]string{
		"git::https://example.com/b.git":                       "name the commit in full",
		"git::https://example.com/b.git?ref=main":              "name the commit in full",
		"git::https://example.com/b.git?ref=0123456":           "name the commit in full",
		"git::https://example.com/b.git?depth=1&ref=" + commit: `"depth" is not known`,
		"git::https://example.com/b.git//../x" + ref:           `"../x" is not a directory`,
		"git::https://user:secret@example.com/b.git" + ref:     "leave the user and the password out",
		"git::https://token@example.com/b.git" + ref:           "leave the user and the password out",
		"git::ssh://git:secret@example.com/b.git" + ref:        "leave the user and the password out",
		"git::ext::sh -c id" + ref:                             "begin with git::https://",
		"git::--upload-pack=id" + ref:                          "begin with git::https://",
		"git::-x@example.com:b.git" + ref:                      "begin with git::https://",
		"git::git@example.com:--upload-pack=id" + ref:          "begin with git::https://",
		"git::/srv/modules.git" + ref:                          "begin with git::https://",
		"git::" + ref:                                          "begin with git::https://",
	} {
		_, err := parseGit(source)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, wanted %s", source, err, want)
		}
	}
}
