package rules

import (
	"go/ast"
	"go/token"
	"strconv"
)

// programsRule is about tests: several of them run at once, and begin processes.
func programsRule() Rule {
	return Rule{
		Name: "programs",
		Why:  `write it with programtest.Write, or a process that another test begins makes it "text file busy"`,
		Check: func(t *Tree) (findings []Finding, _ error) {
			for _, f := range t.Files {
				if f.Go == nil || !f.Test || f.Path == "coderd/programtest/programtest.go" {
					continue
				}
				for n := range ast.Preorder(f.Go) {
					if call, ok := n.(*ast.CallExpr); ok && writesProgram(call) {
						findings = append(findings, Finding{f.Path, t.Fset.Position(call.Pos()).Line, "os.WriteFile"})
					}
				}
			}
			return findings, nil
		},
	}
}

// writesProgram says whether a call of os.WriteFile makes a file that can be run.
func writesProgram(call *ast.CallExpr) bool {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "WriteFile" || len(call.Args) != 3 {
		return false
	}
	if from, ok := function.X.(*ast.Ident); !ok || from.Name != "os" {
		return false
	}
	mode, ok := call.Args[2].(*ast.BasicLit)
	if !ok || mode.Kind != token.INT {
		return false
	}
	bits, err := strconv.ParseUint(mode.Value, 0, 32)
	return err == nil && bits&0o111 != 0
}
