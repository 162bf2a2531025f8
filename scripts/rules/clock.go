package rules

import "go/ast"

func clockRule() Rule {
	names := map[string]bool{
		"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true,
		"NewTimer": true, "NewTicker": true,
	}
	return Rule{
		Name: "clock",
		Why:  "take a quartz.Clock, so that a test can stop and advance it; in SQL use prewarm_now()",
		Check: func(t *Tree) ([]Finding, error) {
			return t.eachGo(func(f *File, report func(ast.Node, string)) { uses(f.Go, "time", names, report) }), nil
		},
	}
}

func backgroundRule() Rule {
	names := map[string]bool{"Background": true, "TODO": true}
	return Rule{
		Name: "background",
		Why:  "take the caller's context (context.WithoutCancel outlives it and keeps its values)",
		Check: func(t *Tree) ([]Finding, error) {
			return t.eachGo(func(f *File, report func(ast.Node, string)) { uses(f.Go, "context", names, report) }), nil
		},
	}
}
