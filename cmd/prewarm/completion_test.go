package main

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCompletionOfNames(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	claimed := testWorkspace.Name + "\tquickstart/default, claimed\n"
	workspaces := claimed + "prebuild-b\tci/large, quarantined\nprebuild-c\tci/large, deleting\n"
	for line, want := range map[string]string{
		"claim ":                     "quickstart/default\nci/large\nci/by-hand\n",
		"claim ci/":                  "quickstart/default\nci/large\nci/by-hand\n", // the shell keeps those that fit
		"preset show ":               "quickstart/default\nci/large\nci/by-hand\n",
		"workspace release ":         claimed,
		"release ":                   claimed,
		"ssh ":                       claimed,
		"cp ":                        strings.Replace(claimed, "\t", ":\t", 1),
		"cp ./f ":                    strings.Replace(claimed, "\t", ":\t", 1),
		"cp ./":                      "",
		"workspace retry ":           "prebuild-b\tci/large, quarantined\n",
		"workspace show ":            workspaces,
		"template undeprecate ":      "",
		"template deprecate ":        "quickstart\n",
		"template show ":             "quickstart\n",
		"template show quickstart ":  "",
		"workspace list --template ": "quickstart\n",
		"workspace list --state r":   "ready\n",
		"claim a/b --mode ":          "prefer\nrequire\nbypass\n",
		"preset list -o ":            "table\njson\nyaml\n",
		"pause ":                     "list\tList what is paused\nprovider\ntemplate\npreset\n", // global is
		"pause provider ":            "local\nopenstack\nincus\nold\n",
		"pause preset ":              "ci/large\nci/by-hand\n",
		"pause global ":              "",
		"resume ":                    "global\npreset\n",
		"resume preset ":             "quickstart/default\n",
		"resume provider ":           "",
		"provider resume ":           "",
		"provider confirm ":          "local\nincus\nold\n",
		"forge start ":               "",
		"forge stop ":                "acme\n",
		"preset invalidate ":         "quickstart/default\nci/large\n",
		"preset reset ":              "",
		"token revoke ":              "laptop\n",
		"workspace del":              "delete\tDelete a workspace, claimed or not\n",
	} {
		got := newShell(t, server.URL).run(append([]string{"__complete"}, strings.Split(line, " ")...)...)
		names := got.stdout[:strings.LastIndex(got.stdout, ":")]
		if strings.HasPrefix(line, "workspace list --state") {
			names = names[strings.Index(names, "ready"):][:len("ready\n")]
		}
		if got.status != 0 || names != want {
			t.Errorf("%q: wanted %q, got %s", line, want, got)
		}
	}
}

// Whoever presses Tab without a server or a token gets nothing, and no noise.
func TestCompletionWithoutServer(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, map[string]answer{"GET /presets": {status: 401, body: "{}"}})
	got := newShell(t, server.URL).run("__complete", "claim", "")
	if got.status != 0 || !strings.HasPrefix(got.stdout, ":") || strings.Contains(got.stdout+got.stderr, "prewarm:") {
		t.Error(got)
	}
}

// The script that is generated is one that the shell can read.
func TestCompletionScript(t *testing.T) {
	t.Parallel()
	got := newShell(t, "").run("completion", "bash")
	if got.status != 0 {
		t.Fatal(got)
	}
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(got.stdout)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("bash: %v: %s", err, out)
	}
}
