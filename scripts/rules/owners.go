package rules

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// owners are the tables of each group of statements: the folders of queries/. What writes a table stands in its owner's
// folder, and coderd/imports_test.go says which room may import the code of that folder: mostly the room of the same name.
var owners = map[string][]string{
	"alerts":    {"notifications"},
	"api":       {"organizations", "pauses", "plans"}, // what is written by requests only
	"auth":      {"memberships", "sessions", "tokens", "users"},
	"autosize":  {"autosize_progress", "claim_history", "preset_samples", "preset_sizes"},
	"claim":     {"claim_parameters", "claims", "lost_claims"},
	"database":  {"installation"},
	"entities":  {"forge_credentials", "forge_entities"},
	"inbox":     {"forge_deliveries", "forge_jobs"},
	"instance":  {"agents", "signing_keys"},
	"inventory": {"inventories", "inventory_findings", "provider_calls", "provider_machines", "times_at_work", "workspace_drift"},
	"reconcile": {"create_rates", "headroom", "intents", "preset_status", "reconcile_fence", "standby_moves", "template_passes"},
	"replicas":  {"replicas"},
	"runners":   {"forge_runners", "forge_status"},
	"states":    {"terraform_modules", "terraform_output", "terraform_runs", "terraform_states"},
	"tunnel":    {"tunnels"},
	"templates": {"presets", "providers", "template_versions", "templates"},
	"workspaces": {
		"failure_logs", "jobs", "pool_proofs", "preset_failure_causes", "preset_failures", "workspace_history", "workspaces",
	},
}

// grant lets a group write a table of another owner.
type grant struct {
	group, table string
	verbs        string
	why          string
}

// Retention may delete from every table besides: it does nothing else.
var grants = []grant{
	{"auth", "audit_log", "INSERT", "the log has no owner; what a row of it looks like is the rule `records`"},
	{"inventory", "audit_log", "INSERT", "as auth"},
	{"runners", "audit_log", "INSERT", "as auth"},
	{"server", "audit_log", "INSERT", "as auth"},
	{"workspaces", "audit_log", "INSERT", "as auth, in the statement of the transition"},

	{"workspaces", "agents", "UPDATE", "an agent is silent, or expected again, from the transition on"},
	{"workspaces", "claims", "INSERT UPDATE", "a claim is bound, and released, by the transition of its workspace"},
	{"workspaces", "lost_claims", "INSERT DELETE", "a claim lost its workspace, in the statement that audits it"},
	{"workspaces", "intents", "DELETE", "after a restore, in the statement that quarantines"},
	{"workspaces", "reconcile_fence", "UPDATE", "what comes back into a pool makes passes plan anew"},
	{"workspaces", "headroom", "UPDATE", "what was gone and is there again takes its place, under the fence"},

	{"lifecycle", "jobs", "UPDATE", "who works on a job, until when, and when it is tried again"},
	{"lifecycle", "agents", "UPDATE", "a start expects the agent again"},
	{"lifecycle", "forge_runners", "INSERT", "there is a row before anything can register"},
	{"lifecycle", "forge_runners", "UPDATE", "the probe finds it up, and its time to register begins"},
	{"lifecycle", "provider_machines", "UPDATE", "the worker that holds the job reserves a machine, and gives it back"},
	{"lifecycle", "intents", "DELETE", "it is carried out"},
	{"lifecycle", "standby_moves", "DELETE", "it is carried out"},
	{"instance", "jobs", "UPDATE", "a report makes the probe due at once"},
	{"instance", "claim_parameters", "UPDATE", "secrets are wiped once they are delivered"},
	{"runners", "jobs", "UPDATE", "what the forge says makes probes and drains due at once, or ends one for good"},
	{"runners", "forge_jobs", "UPDATE", "a job is bound to the workspace of its runner"},

	{"entities", "forge_status", "INSERT DELETE UPDATE", "its row comes and goes with the entity, which is asked at once with another credential"},
	{"inbox", "forge_status", "INSERT", "how far the listing of deliveries and jobs has come"},
	{"inventory", "providers", "UPDATE", "when its machines were listed, that a person trusts it, and that nothing is left there"},
	{"leases", "claims", "UPDATE", "places in line that have run out"},
	{"templates", "claims", "UPDATE", "who waits for a preset that is removed waits no more"},
	{"templates", "preset_failures", "DELETE", "a person begins anew"},
	{"retention", "claims", "UPDATE", "old idempotency keys are free again"},
	{"server", "providers", "INSERT", "those that every installation has"},
	{"server", "claims", "UPDATE", "after a restore nobody waits"},
	{"server", "inventories", "DELETE", "after a restore: seen before says nothing"},
	{"server", "inventory_findings", "DELETE", "as inventories"},
	{"server", "times_at_work", "DELETE", "as inventories"},
	{"server", "replicas", "DELETE", "after a restore: none of them runs"},
	{"server", "tokens", "DELETE", "after a restore: one may have been revoked since"},
}

// write is one place in a statement that writes a table.
type write struct {
	verb, table string
	line        int
}

// query is one statement of queries/, without its comments.
type query struct {
	file, group, name string
	text              string
	line              int
	writes            []write
}

var (
	comment = regexp.MustCompile(`(?m)--.*$`)
	named   = regexp.MustCompile(`(?m)^-- name: (\w+) .*$`)
	// What comes before an UPDATE that writes nothing: FOR UPDATE, FOR NO KEY UPDATE, and DO UPDATE of the table that the
	// INSERT before it names.
	writes = regexp.MustCompile(`(?i)\b(?:(FOR|KEY|DO)\s+)?(?:(INSERT)\s+INTO|(DELETE)\s+FROM|(UPDATE)|(MERGE)\s+INTO|(TRUNCATE)(?:\s+TABLE)?)` +
		`\s+(?:ONLY\s+)?(\w+)`)
	locks = regexp.MustCompile(`(?i)\bFOR\s+(NO\s+KEY\s+)?(UPDATE|(KEY\s+)?SHARE)\b|\bpg_(try_)?advisory`)
)

// queries returns the statements of queries/GROUP/*.sql.
func (t *Tree) queries() []query {
	var all []query
	for _, f := range t.Files {
		folder := path.Dir(f.Path)
		if path.Dir(folder) != "queries" || path.Ext(f.Path) != ".sql" {
			continue
		}
		begins := named.FindAllSubmatchIndex(f.Text, -1)
		for i, at := range begins {
			end := len(f.Text)
			if i+1 < len(begins) {
				end = begins[i+1][0]
			}
			q := query{
				file: f.Path, group: path.Base(folder), name: string(f.Text[at[2]:at[3]]), line: lineAt(f.Text, at[0]),
				text: string(comment.ReplaceAll(f.Text[at[1]:end], nil)),
			}
			for _, m := range writes.FindAllStringSubmatchIndex(q.text, -1) {
				if m[2] >= 0 {
					continue
				}
				verb := strings.ToUpper(strings.Fields(q.text[m[0]:m[1]])[0])
				q.writes = append(q.writes, write{verb, q.text[m[14]:m[15]], q.line + strings.Count(q.text[:m[0]], "\n")})
			}
			all = append(all, q)
		}
	}
	return all
}

func lineAt(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }

func ownersRule() Rule {
	return Rule{
		Name: "owners",
		Why: "what writes a table stands in the folder of its owner, so that the imports say who can run it: move it there " +
			"and call a function of the owner's room, or add a line with its reason to owners.go",
		Check: func(t *Tree) ([]Finding, error) {
			var findings []Finding
			for _, q := range t.queries() {
				for _, w := range q.writes {
					if !mayWrite(q.group, w) {
						findings = append(findings, Finding{q.file, w.line, fmt.Sprintf("%s: %s of %s by %s", q.name, w.verb, w.table, q.group)})
					}
				}
				if at := locks.FindStringIndex(q.text); q.group == "views" && at != nil {
					line := q.line + strings.Count(q.text[:at[0]], "\n")
					findings = append(findings, Finding{q.file, line, q.name + ": a lock in a view"})
				}
			}
			return findings, nil
		},
	}
}

func mayWrite(group string, w write) bool {
	if slices.Contains(owners[group], w.table) || group == "retention" && w.verb == "DELETE" {
		return true
	}
	return slices.ContainsFunc(grants, func(g grant) bool {
		return g.group == group && g.table == w.table && slices.Contains(strings.Fields(g.verbs), w.verb)
	})
}

// The rows of the two logs: which columns, in which order, and that the time is the statement's.
var (
	records = map[string]*regexp.Regexp{
		"workspace_history": regexp.MustCompile(`^\s*\(workspace_id, incarnation, (from_state, )?to_state, at, actor_id, reason(, job_id(, attempt)?)?\)` +
			`\s+SELECT (moved|ws)\.id, (moved|ws)\.incarnation, `),
		"audit_log": regexp.MustCompile(`^\s*\(at, actor_id, (organization_id, )?action, target_type, target_id, (target_name, )?(before, )?(after,\s+)?` +
			`(reason, )?source\)\s+(SELECT |VALUES \()(prewarm_now\(\)|moved\.claimed_at), `),
	}
	setsState = regexp.MustCompile(`(?s)\bUPDATE workspaces\s+\w*\s*SET\s+(?:[^;]*?,\s+)?state = `)
)

func recordsRule() Rule {
	return Rule{
		Name: "records",
		Why: "history and audit rows are written in one form, by the statement of the deed, and every statement that sets the " +
			"state of a workspace writes its history (docs/decisions/0032-one-form-of-history.md)",
		Check: func(t *Tree) ([]Finding, error) {
			var findings []Finding
			for _, q := range t.queries() {
				into := make(map[string]bool)
				for _, w := range q.writes {
					into[w.verb+" "+w.table] = true
				}
				for table, form := range records {
					for _, at := range regexp.MustCompile(`\bINSERT INTO `+table+`\b`).FindAllStringIndex(q.text, -1) {
						if !form.MatchString(q.text[at[1]:]) {
							line := q.line + strings.Count(q.text[:at[0]], "\n")
							findings = append(findings, Finding{q.file, line, q.name + ": another form of a row of " + table})
						}
					}
				}
				switch history := into["INSERT workspace_history"]; {
				case history && !into["UPDATE workspaces"] && !into["INSERT workspaces"]:
					findings = append(findings, Finding{q.file, q.line, q.name + ": history without a change of its workspace"})
				case !history && (into["INSERT workspaces"] || setsState.MatchString(q.text)):
					findings = append(findings, Finding{q.file, q.line, q.name + ": a state without its history"})
				}
			}
			return findings, nil
		},
	}
}
