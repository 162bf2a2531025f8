package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/xerrors"
)

// room is a room with its own statements, and the packages whose tests must notice a change there.
type room struct {
	name  string
	code  []string // folders
	tests []string
	// further are packages with whole worlds, whose tests are asked where all those pass.
	further []string
}

const simulation, replay = "./coderd/simulation", "./coderd/demand/replay"

var rooms = []room{
	{"auth", []string{"coderd/auth", "database/authdb"}, []string{"./coderd/auth", "./coderd/api"}, nil},
	{"claim", []string{"coderd/claim", "database/claimdb"}, []string{"./coderd/claim"}, []string{simulation}},
	{
		"demand", []string{
			"coderd/demand/entities", "coderd/demand/inbox", "coderd/demand/runners", "database/entitiesdb", "database/inboxdb",
			"database/runnersdb",
		}, []string{"./coderd/demand/entities", "./coderd/demand/inbox", "./coderd/demand/runners"}, []string{replay},
	},
	{"instance", []string{"coderd/instance", "database/instancedb"}, []string{"./coderd/instance", "./coderd/api"}, nil},
	{"lifecycle", []string{"coderd/lifecycle", "database/lifecycledb"}, []string{"./coderd/lifecycle"}, []string{simulation}},
	{"reconcile", []string{"coderd/reconcile", "database/reconciledb"}, []string{"./coderd/reconcile"}, []string{simulation}},
	{"workspaces", []string{"coderd/workspaces", "database/workspacesdb"}, []string{
		"./coderd/workspaces", "./coderd/claim", "./coderd/lifecycle",
	}, []string{simulation}},
}

// nearest are the packages whose tests judge the room, those of the folder of a file first: they are the likeliest to notice.
func (r room) nearest(file string) []string {
	own := "./" + filepath.Dir(file)
	packages := slices.Clone(r.tests)
	slices.SortStableFunc(packages, func(a, b string) int {
		switch {
		case a == own && b != own:
			return -1
		case b == own && a != own:
			return 1
		}
		return 0
	})
	return packages
}

// site is one change: what stands at a place of a file, and what is put there.
type site struct {
	room     string
	file     string // relative to the root
	offset   int
	line     int
	runs     int // the line of the statement that runs it: of a SQL statement, the first of its method
	old, new string
	moot     bool // nobody could notice it
	// within are the offsets of the condition or the statement that the change is in, which one build can have both ways; 0, 0: none.
	within [2]int
}

// id tells changes apart, for as long as the file is as it is.
func (s site) id() string {
	return fmt.Sprintf("%s:%d+%d %s -> %s", s.file, s.line, s.offset, oneLine(s.old), oneLine(s.new))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// apply is the file with the change.
func (s site) apply(source []byte) []byte {
	return slices.Concat(source[:s.offset], []byte(s.new), source[s.offset+len(s.old):])
}

// sample draws up to n of the changes that are possible in some rooms.
func sample(root string, of []room, seed uint64, n int) ([]site, error) {
	var all []site
	for _, r := range of {
		for _, folder := range r.code {
			files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
			if err != nil {
				return nil, xerrors.Errorf("list %s: %w", folder, err)
			}
			for _, path := range files {
				name := filepath.Base(path)
				if strings.HasSuffix(name, "_test.go") || name == "models.sql.go" || name == "doc.go" {
					continue
				}
				source, err := os.ReadFile(path)
				if err != nil {
					return nil, xerrors.Errorf("read %s: %w", path, err)
				}
				sites, err := find(r.name, filepath.Join(folder, name), source)
				if err != nil {
					return nil, err
				}
				all = append(all, sites...)
			}
		}
	}
	slices.SortFunc(all, func(a, b site) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset)) })
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = slices.DeleteFunc(all, func(s site) bool { return s.moot }) // after the draw, which stays the same whatever is moot
	return all[:min(n, len(all))], nil
}

var operators = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.LAND: "||",
	token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
}

// find is every change that is possible in a file.
func find(room, file string, source []byte) ([]site, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, 0)
	if err != nil {
		return nil, xerrors.Errorf("parse %s: %w", file, err)
	}
	methods := map[string]int{}
	for _, d := range parsed.Decls {
		if method, ok := d.(*ast.FuncDecl); ok && method.Recv != nil {
			methods[method.Name.Name] = set.Position(method.Body.Lbrace).Line
		}
	}
	moot := moots(parsed)
	generated := strings.HasSuffix(file, ".sql.go") // all but the statements
	var sites []site
	offset := func(at token.Pos) int { return set.Position(at).Offset }
	constants := [2]token.Pos{} // of the last declaration of constants: no build can have those both ways
	add := func(at token.Pos, from, to string, condition ast.Expr) {
		p := set.Position(at)
		is := generated || slices.ContainsFunc(moot, func(n ast.Node) bool { return n.Pos() <= at && at < n.End() })
		s := site{room: room, file: file, offset: p.Offset, line: p.Line, runs: p.Line, old: from, new: to, moot: is}
		if condition != nil && !(constants[0] <= at && at < constants[1]) {
			s.within = [2]int{offset(condition.Pos()), offset(condition.End())}
		}
		sites = append(sites, s)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				constants = [2]token.Pos{n.Pos(), n.End()}
			}
		case *ast.BinaryExpr:
			if to, ok := operators[n.Op]; ok {
				condition := ast.Expr(n)
				if slices.Contains([]token.Token{token.ADD, token.SUB, token.MUL, token.QUO}, n.Op) {
					condition = nil
				}
				add(n.OpPos, n.Op.String(), to, condition)
			}
		case *ast.IfStmt:
			if _, ok := n.Cond.(*ast.BinaryExpr); !ok { // whose operator is a change already
				from := string(source[offset(n.Cond.Pos()):offset(n.Cond.End())])
				add(n.Cond.Pos(), from, "!("+from+")", n.Cond)
			}
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				add(n.Pos(), n.Name, strconv.FormatBool(n.Name == "false"), n)
			}
		case *ast.BasicLit:
			if v, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
				add(n.Pos(), n.Value, strconv.Itoa(v+1), nil)
			}
			if n.Kind == token.STRING && strings.HasPrefix(n.Value, "`-- name: ") {
				name, _, _ := strings.Cut(strings.TrimPrefix(n.Value, "`-- name: "), " ")
				for _, s := range statement(n.Value) {
					s.runs = methods[name]
					s.room, s.file, s.line = room, file, set.Position(n.Pos()).Line+strings.Count(n.Value[:s.offset], "\n")
					s.offset += offset(n.Pos())
					s.within = [2]int{offset(n.Pos()), offset(n.End())}
					sites = append(sites, s)
				}
			}
		}
		return true
	})
	return sites, nil
}

// moots are the parts of a file in which nobody could notice a change: what only decides about a line of the log or is in one, and
// what is returned with an error, which nobody reads.
func moots(file *ast.File) (all []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if n.Else == nil && len(n.Body.List) > 0 && !slices.ContainsFunc(n.Body.List, func(s ast.Stmt) bool { return !logs(s) }) {
				all = append(all, n.Cond)
			}
			if last := n.Body.List; len(last) > 0 && isErrNotNil(n.Cond) {
				if r, ok := last[len(last)-1].(*ast.ReturnStmt); ok {
					all = append(all, before(r, isErr)...)
				}
			}
		case *ast.ExprStmt:
			if logs(n) {
				all = append(all, n)
			}
		case *ast.ReturnStmt:
			all = append(all, before(n, isNewErr)...)
		}
		return true
	})
	return all
}

// logs says whether a statement writes a line of the log, and nothing else.
func logs(s ast.Stmt) bool {
	call, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	c, ok := call.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	level, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, level.Sel.Name) {
		return false
	}
	switch to := level.X.(type) {
	case *ast.SelectorExpr:
		return strings.EqualFold(to.Sel.Name, "log")
	case *ast.Ident:
		return strings.EqualFold(to.Name, "log")
	}
	return false
}

// before are the values that a statement returns with an error, if what it returns last is one.
func before(r *ast.ReturnStmt, is func(ast.Expr) bool) (values []ast.Node) {
	last := len(r.Results) - 1
	if last < 1 || !is(r.Results[last]) {
		return nil
	}
	for _, value := range r.Results[:last] {
		values = append(values, value)
	}
	return values
}

func isErr(e ast.Expr) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == "err"
}

// isErrNotNil is about `err != nil` and nothing else: else err may be nil, and who asked reads the values.
func isErrNotNil(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ || !isErr(b.X) {
		return false
	}
	i, ok := b.Y.(*ast.Ident)
	return ok && i.Name == "nil"
}

// isNewErr says whether it is an error whatever happened: Err…, xerrors.Errorf and the like.
func isNewErr(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.HasPrefix(e.Name, "Err")
	case *ast.SelectorExpr:
		return strings.HasPrefix(e.Sel.Name, "Err")
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Errorf" || f.Sel.Name == "New")
	}
	return false
}

var (
	sqlWords = regexp.MustCompile(`\b(AND|NOT EXISTS|IS NULL|IS NOT NULL)\b| (<=|>=|<|>|=) `)
	sqlSwaps = map[string]string{
		"AND": "OR", "NOT EXISTS": "EXISTS", "IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL", "<=": "<", "<": "<=",
		">=": ">", ">": ">=", "=": "<>",
	}
	sqlCondition = regexp.MustCompile(`\b(WHERE|AND|OR|ON|WHEN)\b[^,;]*$`)
)

// statement is every change of the conditions of a SQL statement.
func statement(text string) (sites []site) {
	for _, at := range sqlWords.FindAllStringSubmatchIndex(text, -1) {
		from, to := at[2], at[3]
		if from < 0 {
			from, to = at[4], at[5]
		}
		before := text[:from]
		line := before[strings.LastIndexByte(before, '\n')+1:]
		word := text[from:to]
		if strings.Contains(line, "--") || word == "=" && !sqlCondition.MatchString(line) { // a comment; an assignment
			continue
		}
		sites = append(sites, site{offset: from, old: word, new: sqlSwaps[word]})
	}
	return sites
}
