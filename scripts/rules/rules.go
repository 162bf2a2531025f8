package rules

import (
	"cmp"
	"fmt"
	"slices"
)

// A Rule finds the places where it is broken.
type Rule struct {
	Name  string
	Why   string
	Check func(*Tree) ([]Finding, error)
}

// Finding is one such place.
type Finding struct {
	File string // from the root of the repository, with slashes
	Line int
	What string
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.What) }

// Rules are all of them.
func Rules() []Rule {
	return []Rule{
		clockRule(), backgroundRule(), sqlRule(), ownersRule(), recordsRule(), inTxRule(), reasonsRule(), openEndRule(),
		pathRule(), lengthRule(), wordsRule(), sentencesRule(), programsRule(),
	}
}

// Judge returns what breaks the rule and is not allowed to, in order of place, and of the exceptions those that nothing
// makes use of any more.
func (r Rule) Judge(tree *Tree, exceptions []Exception) (broken []Finding, idle []Exception, err error) {
	findings, err := r.Check(tree)
	if err != nil {
		return nil, nil, err
	}
	used := make(map[string]bool)
	for _, f := range findings {
		if slices.ContainsFunc(exceptions, func(e Exception) bool { return e.Rule == r.Name && e.File == f.File }) {
			used[f.File] = true
			continue
		}
		broken = append(broken, f)
	}
	slices.SortFunc(broken, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.File, b.File), a.Line-b.Line) })
	for _, e := range exceptions {
		if e.Rule == r.Name && !used[e.File] {
			idle = append(idle, e)
		}
	}
	return broken, idle, nil
}
