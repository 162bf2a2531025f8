package rules

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"golang.org/x/xerrors"
)

// providers is the package under which everything that takes a context may talk to a provider.
const providers = Module + "/coderd/provider"

func inTxRule() Rule {
	return Rule{
		Name: "intx",
		Why: "a provider may hang for minutes while the transaction holds its locks, and what it does is not rolled back " +
			"(I8); this sees calls written inside the function given to InTx, provider.Guarded refuses all others",
		Check: findInTx,
	}
}

// findInTx looks at the packages that begin transactions. Types are needed to tell a provider's Get from a map's, so
// the packages are checked against the compiler's output for what they import.
func findInTx(t *Tree) ([]Finding, error) {
	packages := make(map[string][]*ast.File)
	for _, f := range t.Files {
		if f.Go != nil && !strings.HasSuffix(f.Path, "_test.go") {
			packages[path.Dir(f.Path)] = append(packages[path.Dir(f.Path)], f.Go)
		}
	}
	maps.DeleteFunc(packages, func(_ string, files []*ast.File) bool { return !slices.ContainsFunc(files, beginsTx) })
	if len(packages) == 0 {
		return nil, nil
	}
	imports, err := t.compiled()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for dir, files := range packages {
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
		// Two files for two platforms declare a thing twice; what matters here is known all the same.
		config := types.Config{Importer: imports, Error: func(error) {}}
		_, _ = config.Check(Module+"/"+dir, t.Fset, files, info)
		for _, file := range files {
			for body := range transactions(file) {
				for n := range ast.Preorder(body) {
					if name, ok := n.(*ast.Ident); ok && isProviderCall(info.Uses[name]) {
						at := t.Fset.Position(name.Pos())
						findings = append(findings, Finding{at.Filename, at.Line, name.Name + " inside InTx"})
					}
				}
			}
		}
	}
	return findings, nil
}

func beginsTx(file *ast.File) bool {
	for range transactions(file) {
		return true
	}
	return false
}

// transactions yields the bodies of the function literals that are arguments of a method called InTx.
func transactions(file *ast.File) iter.Seq[*ast.BlockStmt] {
	return func(yield func(*ast.BlockStmt) bool) {
		for n := range ast.Preorder(file) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				continue
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "InTx" {
				continue
			}
			for _, argument := range call.Args {
				if literal, ok := argument.(*ast.FuncLit); ok && !yield(literal.Body) {
					return
				}
			}
		}
	}
}

// isProviderCall: a function of a provider that takes a context does so because it waits. Validate, which takes none,
// looks at nothing.
func isProviderCall(object types.Object) bool {
	function, ok := object.(*types.Func)
	if !ok || function.Pkg() == nil {
		return false
	}
	if from := function.Pkg().Path(); from != providers && !strings.HasPrefix(from, providers+"/") {
		return false
	}
	parameters := function.Signature().Params()
	return parameters.Len() > 0 && parameters.At(0).Type().String() == "context.Context"
}

// compiled reads the types of imports from what the compiler left in the build cache.
func (t *Tree) compiled() (types.Importer, error) {
	//nolint:noctx // it ends by itself, and so does `go test`
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", "./coderd/...")
	cmd.Dir = t.Root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, xerrors.Errorf("list packages: %w: %s", err, exit.Stderr)
		}
		return nil, xerrors.Errorf("list packages: %w", err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[name] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(files[name])
	}), nil
}
