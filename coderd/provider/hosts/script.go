package hosts

import (
	"crypto/rand"
	_ "embed" // machine.sh
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

//go:embed machine.sh
var machine string

// lockSeconds is how long an operation waits for another on the same machine.
const lockSeconds = 10

// request is an operation as it is sent: variables, what is to be delivered, and the script. Nothing of it is an argument
// or in the environment of a process, where others could read it.
type request struct {
	op       string
	dir      string
	ref      provider.Ref
	tags     provider.Tags
	template string
	preset   string
	again    bool // with reset: one that failed is tried again
	follow   bool
	exec     string            // id of a command
	files    map[string]string // to be delivered, by their names
	agent    string            // the hash of the agent's program, where there is one
	command  string            // the shell function that writes a command
}

func (r request) script() string {
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s=%s\n", name, quote(value)) }
	set("r_op", r.op)
	set("r_dir", r.dir)
	set("r_lock_s", strconv.Itoa(lockSeconds))
	set("r_name", r.ref.Name)
	set("r_workspace", idOrEmpty(r.ref.WorkspaceID))
	set("r_installation", idOrEmpty(r.tags.Installation))
	set("r_incarnation", strconv.Itoa(int(r.tags.Incarnation)))
	set("r_template", oneLine(r.template))
	set("r_preset", oneLine(r.preset))
	set("r_again", flag(r.again))
	set("r_follow", flag(r.follow))
	set("r_exec", r.exec)
	set("r_agent", r.agent)
	if r.files != nil {
		b.WriteString(deliver(r.files))
	}
	b.WriteString(r.command)
	b.WriteString(machine)
	b.WriteString("main\n")
	return b.String()
}

func idOrEmpty(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return ""
}

// quote makes one word of any text without NUL.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// files are what a workspace has on its machine, beside its directory: scripts and environment.
func files(s spec, env map[string]string, dir string) map[string]string {
	files := map[string]string{
		"env": exports(env), "machine": runner(dir),
		"limits": fmt.Sprintf("r_prepare_s=%d\nr_reset_s=%d\nr_check_s=%d\n", seconds(s.prepareTimeout),
			seconds(s.resetTimeout), seconds(s.checkTimeout)),
	}
	for name, script := range map[string]string{"prepare": s.prepare, "reset": s.reset, "check": s.check, "proof": s.proof} {
		if script != "" {
			files[name] = script
		}
	}
	return files
}

// deliver is the function that writes files into a directory of the machine.
func deliver(files map[string]string) string {
	var b strings.Builder
	b.WriteString("deliver() {\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		end := "END_" + rand.Text()
		fmt.Fprintf(&b, "cat >\"$1/%s\" <<'%s' || return 1\n%s\n%s\n", name, end, strings.TrimSuffix(files[name], "\n"), end)
	}
	b.WriteString("}\n")
	return b.String()
}

// runner is the script that a machine runs by itself, after the session that sent it: what is to be done, or the agent.
func runner(dir string) string {
	return fmt.Sprintf("r_op=${1:-run}\nr_dir=%s\nr_lock_s=60\n%smain\n", quote(dir), machine)
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func exports(env map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(env[name]))
	}
	return b.String()
}

// answer is what a machine says of itself.
type answer struct {
	outcome, detail, dir   string
	phase, fault           string
	name, template, preset string
	tags                   provider.Tags
	created                time.Time
}

const (
	answerBegins = "\n==prewarm==\n"
	answerEnds   = "==end==\n"
)

// unreadableError is that of a machine whose mark does not say whose it is. It is possibly used, so not free (S2).
type unreadableError struct{ why string }

func (e *unreadableError) Error() string        { return e.why }
func (e *unreadableError) Is(target error) bool { return target == provider.ErrMachineTaken }

// parseAnswer reads what is between the marks. An answer without its end was cut off, and says nothing.
func parseAnswer(out string) (answer, error) {
	var a answer
	_, rest, begun := strings.Cut(out, answerBegins)
	text, _, ended := strings.Cut(rest, answerEnds)
	if !begun || !ended {
		return a, xerrors.New("it gave no whole answer")
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		values[key] = value
	}
	a = answer{
		outcome: values["outcome"], detail: values["detail"], dir: values["dir"], phase: values["phase"],
		fault: values["fault"], name: values["name"], template: values["template"], preset: values["preset"],
	}
	switch a.outcome {
	case "broken":
		return a, xerrors.New(a.detail)
	case "unreadable":
		return a, &unreadableError{a.detail}
	}
	created, _ := strconv.ParseInt(values["created"], 10, 64)
	if a.phase == phaseClean {
		return a, nil
	}
	tags, ok := provider.TagsOf(values["installation"], values["workspace"], values["incarnation"])
	if !ok || a.name == "" {
		return a, &unreadableError{fmt.Sprintf("its state is %q, and does not say for which workspace", a.phase)}
	}
	a.tags, a.created = tags, time.Unix(created, 0).UTC()
	return a, nil
}
