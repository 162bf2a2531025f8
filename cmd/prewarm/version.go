package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set when a release is built: -ldflags "-X main.release=v1.2.3".
var release string

// version is the release, else the commit that was built, else "dev".
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	if revision == "" {
		return "dev"
	}
	return "dev-" + revision + modified
}

func (a *app) versionCommand() *cobra.Command {
	return newCommand("version", "Show the version of this binary",
		"Shows the version of this binary. The versions of the servers are in \"prewarm replicas\".",
		"  prewarm version -o json",
		func(*cobra.Command, []string) error {
			v := map[string]string{
				"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			}
			return a.printf(v, "prewarm %s (%s, %s)\n", v["version"], v["go"], v["platform"])
		})
}
