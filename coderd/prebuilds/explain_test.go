package prebuilds

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const usual = 40 * time.Second // that a prebuild takes in these tests

// explained is what a reader sees of a plan's explanation.
func explained(p *pool, plan Plan) string {
	e := Explain(p.preset, p.workspaces, plan, noon, usual)
	var b strings.Builder
	fmt.Fprintln(&b, e.Headline)
	if !e.WarmAt.IsZero() {
		fmt.Fprintf(&b, "warm in %s\n", e.WarmAt.Sub(noon))
	}
	for _, l := range e.Lines {
		fmt.Fprintf(&b, "%-12s%+4d  %s", l.Label, l.Count, l.Sentence)
		if l.Rule != "" {
			fmt.Fprintf(&b, " (%s)", l.Rule)
		}
		if l.Expected != "" {
			fmt.Fprintf(&b, " [%s]", l.Expected)
		}
		if !l.ExpectedAt.IsZero() {
			fmt.Fprintf(&b, " [in %s]", l.ExpectedAt.Sub(noon))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestExplain_everySentenceIsSaid plans thousands of pools: each line of each ledger has a sentence, and each sentence is
// that of some line, so that none is left over from a reason that is gone.
func TestExplain_everySentenceIsSaid(t *testing.T) {
	t.Parallel()
	draw := rapid.Custom(drawPool)
	said := map[int]bool{}
	for seed := range 4000 {
		p := draw.Example(seed)
		if seed%7 == 0 {
			p.preset.TemplateID, p.preset.TemplateCreatesInFlight = numbered(1), 1
		}
		plan := mustPlan(t, p, noon)
		limits := map[string]Limits{"sim": {Chunk: 1 + seed%4, Maximum: 4 * (seed % 3), Live: seed % 5}}
		if seed%5 == 0 {
			limits["sim"] = Limits{Chunk: 4, Reserves: true, Available: seed % 3, Stale: seed%4 == 0}
		}
		if seed%5 == 1 {
			limits["sim"] = Limits{Chunk: 100, Rate: Rate{Every: time.Minute, Burst: 1}.At(noon)}
		}
		if seed%11 == 0 {
			limits = nil
		}
		Clamp([]*Plan{&plan}, limits)
		e := Explain(p.preset, p.workspaces, plan, noon, usual)
		require.NotEmpty(t, e.Headline)
		sum := 0
		for i, l := range e.Lines {
			require.NotEmpty(t, l.Sentence)
			at := -1
			for n, s := range sentences {
				if s.label == l.Label && s.rule == l.Rule && s.matches(l.Reason) {
					at = n
					break
				}
			}
			require.NotEqual(t, -1, at, "%+v has no sentence", l.Line)
			said[at] = true
			if i < len(plan.Ledger.Creates) {
				sum += l.Count
			}
			if l.Label == "held back" {
				require.NotEmpty(t, l.Expected+l.ExpectedAt.String())
				require.True(t, l.Expected != "" || !l.ExpectedAt.IsZero(), "%+v has no end", l.Line)
			}
		}
		require.GreaterOrEqual(t, plan.Ledger.Create, 0)
		if plan.Ledger.Create > 0 {
			require.Equal(t, plan.Ledger.Create, sum, "the lines add up")
		}
	}
	for n, s := range sentences {
		require.True(t, said[n], "nothing ever says %q (%s %s %s)", s.says, s.label, s.rule, s.reason)
	}
}

// TestExplain_everyReasonHasASentence reads the planner's source: whatever text stands beside the number of a rule is a
// reason, and must be known to sentences, also where no drawn pool happens to meet it.
func TestExplain_everyReasonHasASentence(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	reasons := 0
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "sentences.go" ||
			name == "explain.go" || name == "check.go" || name == "ledger_facts.go" {
			continue
		}
		for _, r := range reasonsIn(t, name) {
			known := false
			for _, s := range sentences {
				prefix, some := strings.CutSuffix(s.reason, "*")
				known = known || s.rule == r.rule && (s.reason == r.text || some && strings.HasPrefix(r.text, prefix))
			}
			require.True(t, known, "%s: rule %s has the reason %q, for which sentences.go has nothing", r.at, r.rule, r.text)
			reasons++
		}
	}
	require.Greater(t, reasons, 12, "the planner's reasons are no longer found by this test")
}

type reason struct{ at, rule, text string }

var ruleNumber = regexp.MustCompile(`^[CSGPA][0-9]+$`)

// reasonsIn finds the innermost statements, calls and literals that name a rule, and the texts in them.
func reasonsIn(t *testing.T, name string) []reason {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, 0)
	require.NoError(t, err)
	var found []reason
	visit := func(n ast.Node, args []ast.Expr) {
		rule := ""
		var texts []string
		for _, arg := range args {
			if text, ok := textOf(arg); ok && ruleNumber.MatchString(text) {
				rule = text
			} else if ok {
				texts = append(texts, text)
			}
		}
		for _, text := range texts {
			if rule != "" && text != "" && !labels[text] {
				found = append(found, reason{files.Position(n.Pos()).String(), rule, text})
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			visit(n, n.Args)
		case *ast.CompositeLit:
			visit(n, n.Elts)
		case *ast.AssignStmt:
			visit(n, n.Rhs)
		case *ast.ValueSpec:
			visit(n, n.Values)
		}
		return true
	})
	return found
}

// labels are no reasons, though they stand beside rules.
var labels = map[string]bool{"queued": true, "at jobs": true, "desired": true, "renewal": true, "renewed": true, "held back": true, "keep": true}

// textOf is what an expression says for certain: a text, a constant of this package, the beginning of a format or of a sum.
func textOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		return textOf(e.X)
	case *ast.Ident:
		known := map[string]string{
			"renewReason": renewReason, "renewed": renewed, "keepReason": keepReason, "keepRule": keepRule,
			"queuedReason": queuedReason, "atJobsReason": atJobsReason, "shrinkRule": shrinkRule, "shrinkReason": shrinkReason,
		}
		text, ok := known[e.Name]
		return text, ok
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			text, ok := textOf(e.Args[0])
			text, _, _ = strings.Cut(text, "%")
			return text, ok
		}
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "hardLimitReason" {
			return "hard limit, until the version changes or a reset: ", true
		}
	}
	return "", false
}

// TestC10_pauseEndsByItself: a plan is looked at again when the pause ends, the global one before the preset's own.
func TestC10_pauseEndsByItself(t *testing.T) {
	t.Parallel()
	p := newPool(2).with(paused)
	require.True(t, mustPlan(t, p, noon).RetryAt.IsZero())
	p.preset.PauseUntil = noon.Add(time.Hour)
	plan := mustPlan(t, p, noon)
	require.Equal(t, noon.Add(time.Hour), plan.RetryAt)
	require.Zero(t, plan.Create)
	require.Equal(t, "Not warm: 0 of 2 prebuilds ready; 2 creates held back: paused: maintenance of the cluster.",
		Explain(p.preset, nil, plan, noon, usual).Headline)
	require.Equal(t, noon.Add(time.Hour+usual), Explain(p.preset, nil, plan, noon, usual).WarmAt)

	snap := Snapshot{Now: noon, Pauses: Pauses{{Scope: PauseGlobal}: {Reason: "all", Until: noon.Add(time.Minute)}}}
	plan, err := snap.DecidePreset(p.preset, nil)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Minute), plan.RetryAt)
	require.Contains(t, plan.Ledger.String(), "paused: all")
	// The same for a pool that lacks nothing: its headline still says so.
	p = newPool(1).with(paused).add(1, Ready)
	require.Equal(t, "Warm: 1 of 1 prebuild ready. It is paused (maintenance of the cluster): what is claimed is not replaced.",
		Explain(p.preset, p.workspaces, mustPlan(t, p, noon), noon, usual).Headline)
}
