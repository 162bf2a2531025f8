package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// A line of the list of presets fits a terminal of 100 columns, however much there is to say.
func TestPresetList_fits(t *testing.T) {
	t.Parallel()
	presets := []sdk.Preset{
		{Template: "go", Preset: "small", Pool: true, Counts: sdk.Counts{Desired: 3, Starting: 3}, Failures: 2, Fault: strings.Repeat("no ", 100)},
		{Template: "go", Preset: "large", Pool: true, Counts: sdk.Counts{Desired: 3, Actual: 3, Claimed: 12}},
	}
	server := newFakeServer(t, map[string]answer{"GET /presets": {body: mustJSON(t, presets)}})
	got := newShell(t, server.URL).run("preset", "list")
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, lines, 3, got)
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
	}
	require.Equal(t, []string{"PRESET", "READY", "CLAIMED", "STATUS"}, strings.Fields(lines[0]))
	require.Contains(t, lines[1], "the last 2 creates failed: no no")
	require.Equal(t, []string{"go/large", "3/3", "12", "ready"}, strings.Fields(lines[2]))
}

// YAML has the fields of JSON, in their order, and neither writes characters of HTML as escapes.
func TestYAML(t *testing.T) {
	t.Parallel()
	answers := answers(t)
	answers["GET /workspaces/w"] = answer{body: `{"name":"w","fault":"a && b <c>","parameters":{"yes":"no","n":"1"},"incarnation":1}`}
	server := newFakeServer(t, answers)
	sh := newShell(t, server.URL)
	asJSON, asYAML := sh.run("workspace", "show", "w", "-o", "json"), sh.run("workspace", "show", "w", "-o", "yaml")
	require.Contains(t, asJSON.stdout, `"a && b <c>"`)
	require.Zero(t, asYAML.status, asYAML)
	require.Contains(t, asYAML.stdout, "\nfault: a && b <c>\n")
	require.Contains(t, asYAML.stdout, `"yes": "no"`)
	require.Contains(t, asYAML.stdout, `"1"`)
	require.Less(t, strings.Index(asYAML.stdout, "name: w"), strings.Index(asYAML.stdout, "incarnation: 1"))
	for _, line := range []string{"preset list", "claim quickstart/default", "audit list", "version"} {
		got := sh.run(append(strings.Fields(line), "-o", "yaml")...)
		assert.Zero(t, got.status, got)
		assert.Contains(t, got.stdout, ": ")
	}
}

// --wait-ready takes its time behind a space, behind =, and may go without; what follows -- is not the command line's.
func TestWaitReady(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"claim a/b --wait-ready 10m": `"wait_ready":"10m0s"`, "claim --wait-ready 90s a/b": `"wait_ready":"1m30s"`,
		"claim a/b --wait-ready=2m": `"wait_ready":"2m0s"`, "claim --wait-ready a/b": `"wait_ready":"5m0s"`,
	} {
		server := newFakeServer(t, answers(t))
		got := newShell(t, server.URL).run(strings.Fields(line)...)
		require.Zero(t, got.status, got)
		require.Contains(t, server.asked()[0], want, line)
	}
	rest := []string{"exec", "w", "--", "x", "--wait-ready", "5m"}
	require.Equal(t, rest, joinWaitReady(rest))
}

func TestWithScheme(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"localhost:7080": "http://localhost:7080", "127.0.0.1": "http://127.0.0.1", "[::1]:80": "http://[::1]:80",
		"prewarm.example.com": "https://prewarm.example.com", "10.0.0.7:7080/x": "https://10.0.0.7:7080/x",
		"http://prewarm.example.com": "http://prewarm.example.com",
	} {
		require.Equal(t, want, withScheme(given))
	}
}

// A command that is told nothing but the data directory finds a server that listens elsewhere, and its owner's token.
func TestServerByDataDir(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server-url"), []byte(server.URL+"\n"), 0o600))
	sh := newShell(t, "")
	sh.env = []string{"HOME=" + t.TempDir(), "PREWARM_DATA_DIR=" + dir}
	got := sh.run("whoami")
	require.Zero(t, got.status, got)
	require.Contains(t, got.stdout, server.URL)
	other := newFakeServer(t, answers(t))
	got = sh.run("whoami", "--url", strings.TrimPrefix(other.URL, "http://"))
	require.Contains(t, got.stdout, other.URL, "what is named goes first")
}

// A folder that somebody else has packed or written sends no token anywhere: what it names as a server is taken only where
// that is on this machine, and the file this user's.
func TestServerByDataDir_ofOthers(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	dir := t.TempDir()
	file := filepath.Join(dir, "server-url")
	for address, taken := range map[string]string{
		server.URL: server.URL, "https://elsewhere.example": "", "http://127.0.0.1@elsewhere.example" + port: "",
		"http://owner@127.0.0.1" + port: "", "http://[::1": "", "": "",
	} {
		require.NoError(t, os.WriteFile(file, []byte(address+"\n"), 0o600))
		require.Equal(t, taken, leftAddress(file), address)
	}
	require.NoError(t, os.WriteFile(file, []byte(server.URL), 0o600))
	link := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(link, 0o700))
	require.Empty(t, leftAddress(link))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(file, 65534, 65534))
		require.Empty(t, leftAddress(file), "another user has written it")
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	answers := answers(t)
	answers["GET /readyz"] = answer{body: `{"ready":true,"reasons":[]}`, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		_, _ = w.Write([]byte(`{"ready":true,"reasons":[]}`))
	}}
	answers["GET /healthz"] = answer{body: `{"alive":true,"version":"` + version() + `"}`}
	answers["GET /presets"] = answer{body: mustJSON(t, []sdk.Preset{testPreset})}
	answers["GET /replicas"] = answer{body: mustJSON(t, []sdk.Replica{{Name: "r1", State: "alive", Version: version()}})}
	answers["GET /passes/last"] = answer{body: mustJSON(t, sdk.LastPass{StalenessMS: 2000})}
	answers["GET /providers"] = answer{body: mustJSON(t, []sdk.Provider{{Name: "local", Kind: "local"}})}
	answers["GET /forges"] = answer{status: 403, body: `{"detail":"no"}`}
	server := newFakeServer(t, answers)
	sh := newShell(t, server.URL)
	got := sh.run("doctor")
	require.Zero(t, got.status, got)
	require.Regexp(t, `(?m)^clock +ok `, got.stdout)
	require.Regexp(t, `(?m)^forges +skipped `, got.stdout)

	server.answer("GET /readyz", answer{body: `{"ready":false,"reasons":["the database does not answer"]}`, status: 503})
	server.answer("GET /passes/last", answer{body: mustJSON(t, sdk.LastPass{Stale: true})})
	server.answer("GET /providers", answer{body: mustJSON(t, []sdk.Provider{
		{Name: "old", Error: "exit status 1:\nno such file"}, {Name: "os", Breaker: &sdk.Breaker{Reason: "40% missing"}},
	})})
	failing := testPreset
	failing.Failures, failing.Fault = 1, "no such image"
	server.answer("GET /presets", answer{body: mustJSON(t, []sdk.Preset{failing})})
	got = sh.run("doctor")
	require.Equal(t, 1, got.status, got)
	for _, want := range []string{
		`ready +error +the database does not answer +fix`, `database +ok +answers`, `clock +warning`, `passes +error`,
		`provider old +error +no such file \(exit status 1\)`, `provider os +error +the breaker is open: 40% missing`,
		`pool quickstart/default +error +the last create failed: no such image +run "prewarm preset failures quickstart/default"`,
	} {
		require.Regexp(t, `(?m)^`+want, got.stdout)
	}
	require.Contains(t, got.stderr, "5 of ")
	got = sh.run("doctor", "-o", "json")
	require.Equal(t, 1, got.status)
	require.Contains(t, got.stdout, `"check": "database"`)
	server.answer("GET /whoami", answer{status: 501, body: `{"detail":"connection refused"}`})
	got = sh.run("doctor")
	require.Regexp(t, `(?m)^database +error +connection refused +start PostgreSQL`, got.stdout)

	got = newShell(t, "http://127.0.0.1:1").run("doctor")
	require.Equal(t, 1, got.status)
	require.Contains(t, got.stdout, "nothing listens at")
}

// What is left of a time is never said to be less than it is by more than its smaller unit, and never more than an hour.
func TestLeft(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond: "2s", time.Minute: "1m", 90 * time.Second: "1m30s", 5 * time.Minute: "5m",
		2 * time.Hour: "2h", 2*time.Hour + 58*time.Minute + time.Second: "2h59m", 10 * time.Hour: "10h",
		48 * time.Hour: "2d", 10 * 24 * time.Hour: "10d", 71*time.Hour + time.Minute: "3d", 20 * time.Minute: "20m",
	} {
		require.Equal(t, want, left(d), d.String())
	}
}
