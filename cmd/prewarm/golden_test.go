package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// randomKey is what a claim makes up when no key is given, and the start of a process as its id.
var randomKey = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// Every command against a server on which all is well: what it asked, wrote, and ended with.
func TestGolden(t *testing.T) {
	t.Parallel()
	document := filepath.Join(t.TempDir(), "pool.yaml")
	if err := os.WriteFile(document, []byte("templates: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ws := testWorkspace.Name
	for name, line := range map[string]string{
		"whoami":               "whoami",
		"login":                "login",
		"logout":               "logout",
		"token_create":         "token create laptop --user bob --role member --expires-in 720h",
		"token_list":           "token list",
		"token_revoke":         "token revoke laptop",
		"preset_list":          "preset list",
		"preset_list_wide":     "preset list -o wide",
		"status":               "status",
		"release":              "release " + ws,
		"preset_failures":      "preset failures quickstart/default",
		"preset_failures_full": "preset failures quickstart/default --full",
		"preset_reset":         "preset reset quickstart/default --reason repaired",
		"preset_invalidate":    "preset invalidate quickstart/default --reason 'leaky image'",
		"template_rollback":    "template rollback quickstart --to 1",
		"preset_schedule":      "preset schedule show quickstart/default",
		"preset_show":          "preset show quickstart/default",
		"preset_explain":       "preset explain quickstart/default",
		"plan":                 "plan",
		"plan_file":            "plan -f " + document,
		"apply_plan":           "apply --plan " + id(70).String(),
		"preset_nudge":         "preset nudge quickstart/default",
		"preset_size":          "preset size quickstart/default --target 99.5% --days 7",
		"preset_size_few":      "preset size ci/large",
		"preset_replay":        "preset replay quickstart/default --instances 0 --cold",
		"preset_replay_own":    "preset replay ci/large --days 3",
		"claim":                "claim quickstart/default",
		"claim_require":        "claim quickstart/default --mode require --wait 0s --key k1",
		"claim_parameters":     "claim quickstart/default --key k1 --parameter branch=main --parameter key=@" + secret,
		"claim_bypass":         "claim quickstart/default --key k1 --mode bypass --secret token=@" + secret,
		"claim_several":        "claim several/default --key k1 --count 2 --lease 2h",
		"claim_chosen":         "claim quickstart --key k1 --preset-parameter cpu=4 --wait-ready",
		"workspace_renew":      "workspace renew --lease 2h " + ws,
		"workspace_list":       "workspace list --state claimed --owner alice",
		"workspace_show":       "workspace show " + ws,
		"workspace_release":    "workspace release " + ws,
		"workspace_ports":      "workspace ports " + ws,
		"workspace_link":       "workspace link " + ws + " 3000 --path /docs",
		"process_list":         "process list " + ws,
		"process_start":        "process start " + ws + " --dir src --timeout 10m --env CI=true -- make test",
		"process_signal":       "process signal " + ws + " " + id(80).String() + " int",
		"workspace_retry":      "workspace retry " + ws,
		"workspace_keep":       "workspace keep --for 8h --reason leaks " + ws,
		"workspace_delete":     "workspace delete --force --yes " + ws,
		"template_list":        "template list",
		"template_show":        "template show quickstart",
		"template_export":      "template export quickstart",
		"template_versions":    "template versions quickstart --limit 2",
		"template_version":     "template versions quickstart --show 2",
		"template_deprecate":   "template deprecate quickstart",
		"template_undeprecate": "template undeprecate quickstart",
		"template_delete":      "template delete quickstart -y",
		"apply":                "apply -f " + document,
		"apply_stdin":          "apply -f - --dry-run",
		"replicas":             "replicas",
		"provider_list":        "provider list",
		"provider_resume":      "provider resume openstack",
		"provider_delete":      "provider delete openstack --yes",
		"provider_confirm":     "provider confirm openstack",
		"inventory":            "inventory",
		"inventory_all":        "inventory --provider openstack --all",
		"provider_check":       "provider check openstack --preset runners/small",
		"provider_check_fails": "provider check old",
		"provider_check_nicer": "provider check busy",
		"provider_check_mute":  "provider check mute",
		"audit_list":           "audit list --actor alice --limit 2",
		"pause":                "pause preset quickstart/default --reason looking --for 2h",
		"pause_list":           "pause list",
		"quota_list":           "quota list",
		"quota_set":            "quota set --maximum none --maximum-per-user 3",
		"signing_keys":         "admin signing-keys",
		"rotate_signing_key":   "admin rotate-signing-key --retire-now",
		"notify_test":          "admin notify test",
		"forge_list":           "forge list",
		"forge_show":           "forge show acme",
		"forge_add":            "forge add acme --scope organization --path acme --credential acme-app",
		"forge_check":          "forge check acme",
		"forge_credentials":    "forge credential list",
		"forge_credential_add": "forge credential add acme-app --kind github --forge-token-file -",
		"job_list":             "job list --forge acme --unserved",
		"runner_list":          "runner list --status active --limit 5",
		"notify_list":          "admin notify list",
		"resume":               "resume preset quickstart/default",
		"resume_global":        "resume global --organization other",
	} {
		for _, format := range []string{"table", "json"} {
			t.Run(name+"."+format, func(t *testing.T) {
				t.Parallel()
				server := newFakeServer(t, answers(t))
				sh := newShell(t, server.URL)
				sh.stdin = strings.NewReader("pw_typed\n")
				got := sh.run(append([]string{"-o", format}, strings.Fields(line)...)...)
				text := "requests:\n  " + strings.Join(server.asked(), "\n  ") + "\n" + got.String()
				text = strings.ReplaceAll(text, server.URL, "http://SERVER")
				text = strings.ReplaceAll(text, document, "pool.yaml")
				text = regexp.MustCompile(`"key":"`+randomKey.String()).ReplaceAllString(text, `"key":"RANDOM`)
				text = regexp.MustCompile(`{"id":"`+randomKey.String()+`","command`).ReplaceAllString(text, `{"id":"RANDOM","command`)
				golden(t, filepath.Join("testdata", "golden", name+"."+format), text)
			})
		}
	}
}

// The same commands against a server that has nothing: an empty array in JSON, and for a person what to do next.
func TestGoldenEmpty(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"presets": "preset list", "workspaces": "workspace list", "templates": "template list", "tokens": "token list",
		"replicas": "replicas", "audit": "audit list", "pauses": "pause list", "notifications": "admin notify list",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newFakeServer(t, map[string]answer{
				"GET /presets": {body: "null"}, "GET /templates": {body: "[]"}, "GET /tokens": {body: "null"},
				"GET /replicas": {body: "null"}, "GET /pauses": {body: "null"}, "GET /workspaces": {body: "{}"},
				"GET /notifications": {body: "null"},
				"GET /audit":         {body: `{"entries":null}`},
			})
			sh := newShell(t, server.URL)
			args := strings.Fields(line)
			if got := sh.run(append(args, "-o", "json")...); got.stdout != "[]\n" || got.status != 0 {
				t.Errorf("as JSON: %s", got)
			}
			golden(t, filepath.Join("testdata", "golden", "empty_"+name+".table"), sh.run(args...).String())
		})
	}
}
