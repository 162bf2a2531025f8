package templates

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// Pos is a place in a file, both counted from 1. The zero Pos is the file as a whole.
type Pos struct{ Line, Column int }

// Problem is one thing wrong with a file: what, where, and what to do.
type Problem struct {
	Pos     Pos
	Message string
}

// Problems is everything wrong with a file, in the order of its lines. It is an error.
type Problems struct {
	File string
	List []Problem
}

// maxProblems is as many as a person reads; the search ends there.
const maxProblems = 100

// Location is file:line:column of a problem, as editors understand it.
func (p *Problems) Location(at Pos) string {
	file := cmp.Or(p.File, "document")
	return fmt.Sprintf("%s:%d:%d", file, max(at.Line, 1), max(at.Column, 1))
}

// Error has one line for each problem.
func (p *Problems) Error() string {
	lines := lists.Of(p.List, func(problem Problem) string { return p.Location(problem.Pos) + ": " + problem.Message })
	return strings.Join(lines, "\n")
}

// full says that looking for more is idle.
func (p *Problems) full() bool { return len(p.List) >= maxProblems }

// add notes a problem, once.
func (p *Problems) add(at Pos, format string, args ...any) {
	problem := Problem{Pos: at, Message: fmt.Sprintf(format, args...)}
	if !p.full() && !slices.Contains(p.List, problem) {
		p.List = append(p.List, problem)
	}
}

// err is p where there are problems, sorted, and nil where there are none.
func (p *Problems) err() error {
	if len(p.List) == 0 {
		return nil
	}
	slices.SortStableFunc(p.List, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	if p.full() {
		p.List = append(p.List, Problem{p.List[len(p.List)-1].Pos, "there may be more: mend these first"})
	}
	return p
}
