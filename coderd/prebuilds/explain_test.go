package prebuilds

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	e := Words.Explain(p.workspaces, plan, noon, usual)
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
	type saying struct {
		label string
		code  Code
	}
	said := map[saying]bool{}
	for seed := range 4000 {
		p := draw.Example(seed)
		if seed%13 == 0 {
			p.preset.Autosized = true
		}
		if p.preset.Retired != "" && p.preset.Retired != ForgeDrained {
			p.preset.Retired = []Code{TemplateDeleted, PresetRemoved, TemplateDeprecated, ProviderDeleted}[seed%4]
		}
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
		e := Words.Explain(p.workspaces, plan, noon, usual)
		require.NotEmpty(t, e.Headline)
		sum := 0
		for i, l := range e.Lines {
			require.NotEmpty(t, l.Sentence)
			require.Contains(t, Words.Sentences[l.Label], l.Code, "%+v has no sentence", l.Line)
			said[saying{l.Label, l.Code}] = true
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
	for label, codes := range Words.Sentences {
		for _, code := range codes {
			require.True(t, said[saying{label, code}], "nothing ever says %q of %q", code, label)
		}
	}
}

// TestCodes: each code of reason.go is one that some line, intent or rollout of a plan may have, with words of its own and a
// sentence.
func TestCodes(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	require.NoError(t, err)
	said := map[Code]bool{}
	for _, codes := range Words.Sentences {
		for _, code := range codes {
			said[code] = true
		}
	}
	codes := map[Code]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		code := Code(text)
		require.False(t, codes[code], "two codes are called %q", code)
		codes[code] = true
		require.True(t, said[code], "code %q has no sentence", code)
		if strings.Contains(text, "_") { // the others may well be words
			require.NotEqual(t, text, Words.Text(Reason{Code: code}), "code %q has no words", code)
		}
		return true
	})
	require.Greater(t, len(codes), 30)
	delete(said, "")
	require.Len(t, said, len(codes))
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
		Words.Explain(nil, plan, noon, usual).Headline)
	require.Equal(t, noon.Add(time.Hour+usual), Words.Explain(nil, plan, noon, usual).WarmAt)

	snap := Snapshot{Now: noon, Pauses: Pauses{{Scope: PauseGlobal}: {Reason: "all", Until: noon.Add(time.Minute)}}}
	plan, err := snap.DecidePreset(p.preset, nil)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Minute), plan.RetryAt)
	require.Contains(t, plan.Ledger.String(), "paused: all")
	// The same for a pool that lacks nothing: its headline still says so.
	p = newPool(1).with(paused).add(1, Ready)
	require.Equal(t, "Warm: 1 of 1 prebuild ready. It is paused (maintenance of the cluster): what is claimed is not replaced.",
		Words.Explain(p.workspaces, mustPlan(t, p, noon), noon, usual).Headline)
}
