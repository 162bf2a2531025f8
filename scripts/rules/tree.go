package rules

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strings"

	"golang.org/x/xerrors"
)

const (
	// Module is the path of the repository's module.
	Module = "github.com/prewarm-dev/prewarm"
	// maxText is the size in bytes past which a file is not taken for text that somebody wrote.
	maxText = 1 << 20
)

// Tree is what the rules look at.
type Tree struct {
	Root  string // absolute; where `go list` runs
	Fset  *token.FileSet
	Files []*File
}

// File is one text file.
type File struct {
	Path string // from the root, with slashes
	Text []byte
	Go   *ast.File // nil: not Go
	// Generated: it says so in its first lines. Test: a test, or in a folder for tests, whose name ends so.
	Generated, Test bool
}

// skipped are folders that nobody writes into by hand.
var skipped = map[string]bool{
	".git": true, "bin": true, "build": true, "dist": true, "node_modules": true, ".prewarm": true,
}

var tests = regexp.MustCompile(`(_test\.go|test/.*)$`)

// generated is the line that generated files of any language have, as the go command defines it.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// Read reads every text file under fsys, which is the folder root.
func Read(fsys fs.FS, root string) (*Tree, error) {
	tree := &Tree{Root: root, Fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped[entry.Name()]:
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Size() > maxText {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		return tree.add(name, text)
	})
	if err != nil {
		return nil, xerrors.Errorf("read tree: %w", err)
	}
	return tree, nil
}

func (t *Tree) add(name string, text []byte) error {
	file := &File{Path: name, Text: text, Test: tests.MatchString(name), Generated: generated.Match(text)}
	if strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/") {
		parsed, err := parser.ParseFile(t.Fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return xerrors.Errorf("parse file: %w", err)
		}
		file.Go, file.Generated = parsed, ast.IsGenerated(parsed)
	}
	t.Files = append(t.Files, file)
	return nil
}

// eachGo returns what find finds in every Go file that people write and that is part of the product.
func (t *Tree) eachGo(find func(f *File, report func(ast.Node, string))) []Finding {
	var findings []Finding
	for _, f := range t.Files {
		if f.Go == nil || f.Generated || f.Test {
			continue
		}
		find(f, func(at ast.Node, what string) {
			findings = append(findings, Finding{f.Path, t.Fset.Position(at.Pos()).Line, what})
		})
	}
	return findings
}

// importName is what a file calls the package of that path, "" if it does not import it.
func importName(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		switch {
		case strings.Trim(spec.Path.Value, `"`) != path:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	return ""
}

// uses reports every mention of one of the functions of a package, called or not.
func uses(file *ast.File, path string, names map[string]bool, report func(ast.Node, string)) {
	local := importName(file, path)
	if local == "" {
		return
	}
	for n := range ast.Preorder(file) {
		if selector, ok := n.(*ast.SelectorExpr); ok && names[selector.Sel.Name] {
			if from, ok := selector.X.(*ast.Ident); ok && from.Name == local {
				report(selector, path+"."+selector.Sel.Name)
			}
		}
	}
}
