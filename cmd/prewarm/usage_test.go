package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A wrong command line ends with status 2, says what is wrong with it, and asks the server nothing.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	for line, want := range map[string]string{
		"bogusly":                           `unknown command "bogusly" (see "prewarm --help")`,
		"presets":                           `unknown command "presets"; did you mean "preset"?`,
		"clam":                              `unknown command "clam"; did you mean "claim" or "plan"?`,
		"preset lst":                        `unknown command "lst"; did you mean "list"?`,
		"preset list --bogus":               `unknown flag: --bogus (see "prewarm preset list --help")`,
		"preset list extra":                 `unexpected argument "extra"`,
		"preset list -o xml":                `unknown output format "xml": it is one of table, wide, json, yaml`,
		"preset list -o env":                `unknown output format "env": it is one of table, wide, json, yaml`,
		"preset list --watch --interval 0s": "--interval must be more than 0",
		"job list --watch --interval 0s":    "--interval must be more than 0",
		"job list --limit -1":               "--limit must not be negative",
		"runner list -w --interval -1s":     "--interval must be more than 0",
		"forge list --watch --interval 0s":  "--interval must be more than 0",
		"forge lst":                         `unknown command "lst"; did you mean "list"?`,
		"forge add":                         "FORGE is missing",
		"forge add acme --path acme":        "--scope is missing: repository, organization or enterprise",
		"forge stop acme":                   "--reason is missing",
		"forge wait acme --for ever":        `unknown --for "ever": it is works or served`,
		"forge wait acme --timeout 0s":      "--timeout must be more than 0",
		"forge credential add":              "CREDENTIAL is missing",
		"ssh":                               "WORKSPACE is missing",
		"ssh w ls":                          "write the command after --",
		"ssh --stdio w -- ls":               "--stdio takes no command",
		"ssh -- -oProxyCommand=x":           "WORKSPACE is missing",
		"ssh w;ls":                          `"w;ls" is no name of a workspace`,
		"ssh w -o json":                     "the output is the command's",
		"config-ssh w":                      `unexpected argument "w"`,
		"preset show":                       "TEMPLATE/PRESET is missing",
		"preset show quickstart":            `"quickstart" is not a preset: write TEMPLATE/PRESET`,
		"preset size a/b --target 99":       `--target "99" is not a percentage: write it like 99% or 99.5%`,
		"preset size a/b --target 0%":       "--target is 0%: it must be above 0% and below 100%",
		"preset size a/b --target 100%":     "--target is 100%",
		"preset size a/b --target nan%":     "--target is nan%",
		"preset size a/b --days 31":         "--days is 31: it must be between 1 and 30",
		"preset size":                       "TEMPLATE/PRESET is missing",
		"preset replay a":                   `"a" is not a preset`,
		"preset replay a/b --days 0":        "--days is 0: it must be between 1 and 30",
		"preset replay a/b --instances -1":  "--instances is -1: it must be between 0 and 10000",
		"preset show a/b/c":                 `"a/b/c" is not a preset`,
		"preset nudge /b":                   `"/b" is not a preset`,
		"claim":                             "TEMPLATE/PRESET is missing",
		"claim a/b/c":                       `"a/b/c" is not a preset`,
		"claim a/b --cold --mode require":   "--cold goes with --mode prefer, not with require",
		"claim a/b --count 0":               "--count must be from 1 to 100",
		"claim a/b --count 2 -o env":        "about one workspace",
		"claim a/b --count 2 --wait-ready":  "--wait-ready goes with one workspace",
		"claim a/b --lease 1ms":             "--lease must be at least 1s",
		"claim a/b --preset-parameter x=y":  "a/b names one: leave one of them out",
		"claim a --preset-parameter x":      `--preset-parameter "x": write NAME=VALUE`,
		"claim a/b --secret k=pssst":        "--secret number 1: a secret is not written on the command line",
		"claim a/b --secret k=env:NOT":      "--secret k: the environment has no NOT",
		"claim a/b --secret =-":             "--secret number 1: write NAME=-",
		"workspace renew w --lease 1ms":     "--lease must be at least 1s",
		"claim a/b c":                       `unexpected argument "c"`,
		"claim a/b --mode fast":             `unknown mode "fast": it is prefer, require or bypass`,
		"claim a/b --start-wait -1s":        "--start-wait must not be negative",
		"claim a/b --wait -1s":              "--wait must not be negative",
		"claim a/b --wait soon":             `invalid argument "soon" for "--wait"`,
		"claim a/b --exec":                  "--exec needs a command: write it after --",
		"claim a/b -- true":                 "to run a command in the workspace, add --exec before --",
		"claim a/b --exec -o json -- true":  "with --exec the output is the command's",
		"claim a/b --keep":                  "--keep goes with --exec",
		"claim --exec -- true":              "TEMPLATE/PRESET is missing",
		"workspace list --limit -1":         "--limit must not be negative",
		"workspace show":                    "WORKSPACE is missing",
		"workspace logs w -o json":          "-o json cannot be",
		"workspace exec":                    "WORKSPACE is missing",
		"workspace exec w":                  "COMMAND is missing: write it after --",
		"workspace exec w ls":               "write the command after --",
		"workspace exec -- ls":              "WORKSPACE is missing",
		"port-forward":                      "WORKSPACE is missing",
		"port-forward w":                    "REMOTE is missing",
		"port-forward w http":               `"http" is no port`,
		"port-forward w 1:0":                `"1:0" is no port`,
		"port-forward w 65536":              `"65536" is no port`,
		"port-forward w 1:2:3":              `"1:2:3" is no port`,
		"port-forward w 80 -o json":         "-o json cannot be",
		"workspace release w --timeout 0s":  "--timeout must be more than 0",
		"template show a b":                 `unexpected argument "b"`,
		"token create":                      "NAME is missing",
		"apply":                             "-f FILE is missing",
		"audit list --limit 0":              "--limit must be between 1 and 500",
		"audit list --before x":             `invalid argument "x" for "--before"`,
		"pause --reason r":                  "the scope is missing: global, provider NAME",
		"pause all --reason r":              `unknown scope "all"`,
		"pause global":                      "--reason is missing",
		"pause global x --reason r":         `unexpected argument "x"`,
		"pause provider --reason r":         "which provider is missing",
		"pause preset a --reason r":         `"a" is not a preset`,
		"pause global --reason r --for -1h": "--for must be more than 0",
		"pause global --reason r --for 0":   "--for must be more than 0",
		"resume":                            "the scope is missing",
		"resume template":                   "which template is missing",
		"whoami --url ftp://localhost":      "it must look like http://127.0.0.1:7080",
		"replicas -o wide":                  `unknown output format "wide": it is one of table, json, yaml`,
		"shell":                             `unknown command "shell"; did you mean "ssh"?`,
		"login":                             "no token on standard input",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got := newShell(t, server.URL).run(strings.Fields(line)...)
			if got.status != 2 || got.stdout != "" || !strings.HasPrefix(got.stderr, "prewarm: ") ||
				!strings.Contains(got.stderr, want) {
				t.Errorf("wanted %q, got %s", want, got)
			}
		})
	}
	t.Cleanup(func() {
		if asked := server.asked(); len(asked) > 0 {
			t.Errorf("the server was asked %v", asked)
		}
	})
}

func TestVariableThatIsWrong(t *testing.T) {
	t.Parallel()
	sh := newShell(t, "http://127.0.0.1:1")
	sh.env = append(sh.env, "PREWARM_TICK=fast")
	got := sh.run("server")
	if got.status != 2 || !strings.Contains(got.stderr, "PREWARM_TICK: ") {
		t.Error(got)
	}
}

// What the server refuses ends with status 1, in its words, and where one can be named with a remedy.
func TestErrors(t *testing.T) {
	t.Parallel()
	problem := func(status int, body string) map[string]answer {
		return map[string]answer{"GET /presets": {status: status, body: body}, "POST /apply": {status: status, body: body}}
	}
	for name, test := range map[string]struct {
		answers map[string]answer
		line    string
		want    string
	}{
		"not logged in": {
			problem(401, `{"detail":"the token is not valid"}`), "preset list",
			`prewarm: the token is not valid (log in with "prewarm login", or set PREWARM_TOKEN)` + "\n",
		},
		"not allowed": {
			problem(403, `{"detail":"a member may not do this"}`), "preset list",
			"prewarm: a member may not do this\n",
		},
		"not found": {nil, "template show bogus", "prewarm: there is no /templates/bogus\n"},
		"bad document": {
			problem(422, `{"detail":"2 problems","errors":[{"location":"f.yaml:1:2","message":"unknown key"},
				{"location":"f.yaml:3:4","message":"negative"}]}`), "apply -f -",
			"prewarm: 2 problems\n  f.yaml:1:2: unknown key\n  f.yaml:3:4: negative\n",
		},
		"evil server": {
			problem(400, `{"detail":"\u001b]0;owned\u0007"}`), "preset list", "prewarm: \\x1b]0;owned\\a\n",
		},
		"not a server of ours": {
			map[string]answer{"GET /presets": {body: "<html>"}},
			"preset list",
			"prewarm: decode answer of GET /api/v1/presets: invalid character '<' looking for beginning of value\n",
		},
		"no such file": {
			nil, "apply -f /nowhere.yaml", "prewarm: read document: open /nowhere.yaml: no such file or directory\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newShell(t, newFakeServer(t, test.answers).URL).run(strings.Fields(test.line)...)
			if got.status != 1 || got.stdout != "" || got.stderr != test.want {
				t.Errorf("wanted %q, got %s", test.want, got)
			}
		})
	}
}

// Secrets that cannot be read stop a command before the server hears of it, and say which file it is.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	empty, dir := writeFile(t, " \n"), t.TempDir()
	for _, line := range []string{
		"forge credential add acme-app --kind github --forge-token-file %s",
		"forge credential update acme-app --private-key-file %s",
		"forge add acme --scope organization --path acme --credential acme-app --webhook-secret-file %s",
		"forge rotate-secret acme --webhook-secret-file %s",
	} {
		for file, want := range map[string]string{
			"/nowhere": "prewarm: read secret: open /nowhere: no such file or directory\n",
			empty:      "prewarm: read secret: " + empty + " is empty\n",
			dir:        "prewarm: read secret: read " + dir + ": is a directory\n",
			"-":        "prewarm: read secret: - is empty\n",
		} {
			got := newShell(t, server.URL).run(strings.Fields(fmt.Sprintf(line, file))...)
			if got.status != 1 || got.stdout != "" || got.stderr != want {
				t.Errorf("%s: wanted %q, got %s", line, want, got)
			}
		}
	}
	got := newShell(t, server.URL).run("forge", "credential", "add", "acme-app", "--kind", "github", "--ca-file", "/nowhere")
	if got.status != 1 || got.stderr != "prewarm: read authorities: open /nowhere: no such file or directory\n" {
		t.Error(got)
	}
	if asked := server.asked(); len(asked) > 0 {
		t.Errorf("the server was asked %v", asked)
	}
}

// What the server says of a forge or credential that there is none of, or of a bad URL, is shown as it is.
func TestForgeErrors(t *testing.T) {
	t.Parallel()
	const unknown = `there is no forge "acne" (did you mean "acme"?): there is only acme`
	for line, route := range map[string]string{
		"forge show acne": "GET /forges/acne", "forge update acne --balance pack": "GET /forges/acne",
		"forge delete acne": "DELETE /forges/acne", "forge check acne": "POST /forges/acne/check",
		"forge webhook install acne": "POST /forges/acne/webhook", "job list --forge acne": "GET /forge-jobs",
		"runner list --watch --forge acne":                                             "GET /runners",
		"forge credential delete acne":                                                 "DELETE /forges/credentials/acne",
		"forge credential update acme-app --api-url http://x":                          "PUT /forges/credentials/acme-app",
		"forge add acne --scope organization --path acne --credential nobody-has-that": "PUT /forges/acne",
	} {
		detail, err := json.Marshal(map[string]string{"detail": unknown})
		if err != nil {
			t.Fatal(err)
		}
		got := newShell(t, newFakeServer(t, map[string]answer{route: {status: 404, body: string(detail)}}).URL).run(strings.Fields(line)...)
		if got.status != 1 || got.stdout != "" || got.stderr != "prewarm: "+unknown+"\n" {
			t.Errorf("%s: %s", line, got)
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, nil)
	server.Close()
	got := newShell(t, server.URL).run("login", "--token-file", writeFile(t, "pw_x"))
	want := "prewarm: nothing listens at " + server.URL +
		` (start a server with "prewarm server --quickstart", or name another with --url or PREWARM_URL)` + "\n"
	if got.status != 1 || got.stderr != want {
		t.Error(got)
	}
}

func TestDocumentThatIsTooLarge(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	sh := newShell(t, server.URL)
	sh.stdin = strings.NewReader(strings.Repeat("x", 50<<20))
	got := sh.run("apply", "-f", "-")
	if got.status != 1 || !strings.Contains(got.stderr, "larger than 1024 KiB") || len(server.asked()) > 0 {
		t.Error(got)
	}
}

// Every command says what it is, how it is used and gives an example.
func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%q lacks a short or long description or an example", cmd.CommandPath())
		}
		if strings.HasSuffix(cmd.Short, ".") || !strings.HasSuffix(strings.TrimSpace(cmd.Long), ".") {
			t.Errorf("%q: a short description has no full stop, a long one has", cmd.CommandPath())
		}
		for _, line := range strings.Split(cmd.Example, "\n") {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%q: the example %q is not indented", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newShell(t, "").app(nil, nil).command())
}

// Help is for people who ask for it: on stdout, with status 0, without a server.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "--help", "help", "preset", "preset --help", "help claim", "claim -h", "--version", "version",
	} {
		got := newShell(t, "http://127.0.0.1:1").run(strings.Fields(line)...)
		if got.status != 0 || got.stdout == "" || got.stderr != "" {
			t.Errorf("%q: %s", line, got)
		}
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	golden(t, "../../docs/cli.md", newShell(t, "").run("cli-docs").stdout)
}

func TestLoginOverARoadThatIsNotEncrypted(t *testing.T) {
	t.Parallel()
	sh := newShell(t, "http://prewarm.invalid")
	got := sh.run("login", "--token-file", writeFile(t, "pw_x"))
	if got.status != 1 || !strings.Contains(got.stderr, "is not encrypted") ||
		!strings.Contains(got.stderr, "cannot be found") {
		t.Error(got)
	}
}

func TestTransientAnswerIsRetried(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	server.answer("GET /replicas", answer{handle: func(w http.ResponseWriter, _ *http.Request) {
		server.answer("GET /replicas", answer{body: "[]"})
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	}})
	if got := newShell(t, server.URL).run("replicas", "-o", "json"); got.status != 0 || got.stdout != "[]\n" {
		t.Error(got)
	}
}
