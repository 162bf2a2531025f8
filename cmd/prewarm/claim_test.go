package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// evalEnv has a real shell eval text, and returns the value it then has for each name.
func evalEnv(t interface{ Fatalf(string, ...any) }, text string, names ...string) map[string]string {
	script := `eval "$1"; shift; for n; do eval "printf '%s\0' \"\$$n\""; done`
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", text}, names...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sh: %v", err)
	}
	values := map[string]string{}
	for i, value := range bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		values[names[i]] = string(value)
	}
	return values
}

func TestClaimAsEnvironment(t *testing.T) {
	t.Parallel()
	claim := testClaim
	claim.Environment = map[string]string{
		"PORT": "40001", "MOTD": testClaim.Environment["MOTD"], "PREWARM_WORKSPACE": "overridden", "EMPTY": "",
		"PREWARM_ADDRESS": "overridden",
		"bad-name":        "x", "1ST": "x", "X; touch owned": "x", "NUL": "a\x00b",
	}
	claim.Addresses = []sdk.Address{
		{Type: "tcp", Address: "127.0.0.1:40001"}, {Type: "tcp", Address: "127.0.0.1:40002"}, {Type: "web-page", Address: "http://x/?a='b'"},
	}
	server := newFakeServer(t, map[string]answer{"POST /claims": {body: mustJSON(t, claim)}})
	got := newShell(t, server.URL).run("claim", "quickstart/default", "-o", "env")
	if got.status != 0 {
		t.Fatal(got)
	}
	names := []string{
		"PORT", "MOTD", "PREWARM_WORKSPACE", "PREWARM_CLAIM_ID", "EMPTY", "PREWARM_ADDRESS", "PREWARM_ADDRESS_TCP",
		"PREWARM_ADDRESS_TCP_2", "PREWARM_ADDRESS_WEB_PAGE",
	}
	values := evalEnv(t, got.stdout, names...)
	want := map[string]string{
		"PORT": "40001", "MOTD": testClaim.Environment["MOTD"], "EMPTY": "",
		"PREWARM_WORKSPACE": claim.Name, "PREWARM_CLAIM_ID": claim.ClaimID.String(),
		"PREWARM_ADDRESS": "127.0.0.1:40001", "PREWARM_ADDRESS_TCP": "127.0.0.1:40001",
		"PREWARM_ADDRESS_TCP_2": "127.0.0.1:40002", "PREWARM_ADDRESS_WEB_PAGE": "http://x/?a='b'",
	}
	for _, name := range names {
		if values[name] != want[name] {
			t.Errorf("%s is %q after eval, not %q", name, values[name], want[name])
		}
	}
	for _, left := range []string{"bad-name", "1ST", "touch", "NUL"} {
		if strings.Contains(got.stdout, left) || !strings.Contains(got.stderr, left) {
			t.Errorf("%q was not left out, or not reported: %s", left, got)
		}
	}
}

// Whatever a value holds, a shell gets it back as it was, and nothing else.
func TestShellQuote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.OneOf(rapid.SampledFrom([]rune("'\"\\$`\n;&|<> ()*~!#é")), rapid.Rune())
		value := rapid.StringOfN(runes, 0, 40, -1).
			Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }).Draw(t, "value")
		if got := evalEnv(t, "X="+shellQuote(value), "X")["X"]; got != value {
			t.Fatalf("%q became %q", value, got)
		}
	})
}

func TestMiss(t *testing.T) {
	t.Parallel()
	miss := sdk.Claim{
		ClaimID: id(21), Template: "quickstart", Preset: "default", Outcome: "miss", Reason: "0 of 3 are ready",
	}
	server := newFakeServer(t, map[string]answer{"POST /claims": {body: mustJSON(t, miss)}})
	for _, format := range []string{"table", "env", "json"} {
		got := newShell(t, server.URL).run("claim", "quickstart/default", "-o", format)
		want := "prewarm: no warm workspace of quickstart/default: 0 of 3 are ready " +
			`(see "prewarm preset show quickstart/default", or wait longer with --wait)` + "\n"
		if got.status != 3 || got.stderr != want {
			t.Errorf("%s: %s", format, got)
		}
		if format != "json" {
			if got.stdout != "" {
				t.Errorf("%s: %s", format, got)
			}
			continue
		}
		var claim map[string]any
		if err := json.Unmarshal([]byte(got.stdout), &claim); err != nil || claim["outcome"] != "miss" {
			t.Errorf("%s: %v", got, err)
		}
		if addresses, ok := claim["addresses"].([]any); !ok || len(addresses) != 0 {
			t.Errorf("addresses are %v, not an empty array", claim["addresses"])
		}
	}
}
