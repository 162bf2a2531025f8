package templates

import (
	"context"
	"strings"

	"github.com/coder/quartz"
	"github.com/goccy/go-yaml/token"
	"golang.org/x/sync/semaphore"
	"golang.org/x/xerrors"
)

const (
	// maxColumn bounds the nesting of block style, where each level costs at least one column.
	maxColumn = 8 * maxDepth
	// maxKeys of one mapping: the parser's time and memory grow with their square, of which all mappings together may have
	// maxSquares.
	maxKeys    = 1_000
	maxSquares = 2 * maxKeys * maxKeys
	// maxMarks bounds what a file costs before a token of it exists: a mark costs up to a kilobyte, and in the worst
	// orders the parser's time grows with the square of their number. A file that is within it takes less than a second and
	// less than 100 MB.
	maxMarks = 56 << 10
	// For each of these the tokenizer may copy the text before it, or read the line or the row again. These bounds keep a
	// file of maxSource bytes within the same second.
	maxBlank = 50    // blank lines in a row
	maxTabs  = 500   // in a line
	maxLess  = 1_000 // characters < in a row
)

// reading bounds what all files cost that are read at the same time: the largest is read alone.
var reading = semaphore.NewWeighted(maxMarks)

// rest is how many times as long as a file took to read its place is kept for nobody: who applies heavy files without end
// leaves most of a processor to others.
const rest = 3

// parseAlone is parse, once nobody else's file is in the way.
func parseAlone(ctx context.Context, clock quartz.Clock, file, source string, problems *Problems) (*Document, error) {
	weight := int64(min(maxMarks, max(1, marks(source), len(source)/(maxSource/maxMarks))))
	if err := reading.Acquire(ctx, weight); err != nil {
		return nil, xerrors.Errorf("wait until other files are read: %w", err)
	}
	began := clock.Now("templates", "read")
	defer func() {
		clock.AfterFunc(rest*clock.Since(began, "templates", "read"), func() { reading.Release(weight) }, "templates", "rest")
	}()
	return parse(file, source, problems), nil
}

// marks counts the characters that can begin or end something in YAML, those in texts and comments too: no file has many
// more tokens than marks.
func marks(source string) (n int) {
	for i := range len(source) {
		switch source[i] {
		case ',', '[', ']', '{', '}', ':', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
			n++
		case '-', '?': // elsewhere they are part of a word
			if i+1 == len(source) || strings.IndexByte(" \t\r\n", source[i+1]) >= 0 {
				n += 2 // the parser puts something into each item that is empty
			}
		}
	}
	return n
}

// repeats notes the first place where a file has too much of what makes the tokenizer slow, and reports whether there is one.
func repeats(source string, problems *Problems) bool {
	var blank, tabs, less int
	for i := range len(source) {
		c := source[i]
		if c == '<' {
			less++
		} else {
			less = 0
		}
		switch {
		case c == '\t':
			tabs++
		case c == '\n', c == '\r' && !strings.HasPrefix(source[i+1:], "\n"):
			blank, tabs = blank+1, 0 // the end of the line before them is one too
		case c != ' ' && c != '\r':
			blank = 0
		}
		switch {
		case blank > maxBlank+1:
			problems.add(offset(source, i), "more than %d blank lines in a row: delete some", maxBlank)
		case tabs > maxTabs:
			problems.add(offset(source, i), "more than %d tabs in one line: write it as several lines", maxTabs)
		case less > maxLess:
			problems.add(offset(source, i), `more than %d characters "<" in a row: write fewer`, maxLess)
		default:
			continue
		}
		return true
	}
	return false
}

// refused says what to do about YAML that a configuration file does not use.
var refused = map[token.Type]string{
	token.AnchorType:     "anchors are not supported: write the value out where it is used",
	token.AliasType:      "aliases are not supported: write the value out",
	token.MergeKeyType:   "merge keys are not supported: write the settings out",
	token.TagType:        "tags are not supported: leave it out",
	token.DirectiveType:  "directives are not supported: leave it out",
	token.MappingKeyType: `"?" keys are not supported: write "key: value"`,
}

// admissible notes what is refused, nested too deeply or too wide, from the tokens alone.
func admissible(tokens token.Tokens, problems *Problems) bool {
	before := len(problems.List)
	var s shape
	for _, t := range tokens {
		if message, found := refused[t.Type]; found {
			problems.add(tokenPos(t), "%s", message)
		}
		deep, wide := s.see(t)
		if deep {
			problems.add(tokenPos(t), "nested too deeply: at most %d levels", maxDepth)
		}
		if wide {
			problems.add(tokenPos(t), "too many settings in one mapping: at most %d", maxKeys)
		}
		if s.squares > maxSquares {
			problems.add(tokenPos(t), "too many mappings with many settings: split the file")
			return false
		}
		if deep || wide || problems.full() {
			return false
		}
	}
	return len(problems.List) == before
}

// shape follows how deep and how wide a file is, one token after the other.
type shape struct {
	flow    []int        // keys seen in each [ or { that is open
	block   []blockStyle // mappings of block style that are open, each further right than the one before
	squares int          // of the keys of all mappings
}

type blockStyle struct{ column, keys int }

func (s *shape) see(t *token.Token) (deep, wide bool) {
	column, open := t.Position.Column, len(s.flow)
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		s.flow = append(s.flow, 0)
	case token.SequenceEndType, token.MappingEndType:
		s.flow = s.flow[:max(0, open-1)]
	case token.SequenceEntryType:
		s.closeBeyond(column)
		return open == 0 && column > maxColumn, false
	case token.MappingValueType:
		if open > 0 {
			s.squares += 2*s.flow[open-1] + 1 // from n² to (n+1)²
			s.flow[open-1]++
			return false, s.flow[open-1] > maxKeys
		}
		if t.Prev != nil && t.Prev.Position.Line == t.Position.Line {
			column = t.Prev.Position.Column
		}
		s.closeBeyond(column)
		if n := len(s.block); n == 0 || s.block[n-1].column < column {
			s.block = append(s.block, blockStyle{column: column})
		}
		in := &s.block[len(s.block)-1]
		s.squares += 2*in.keys + 1
		in.keys++
		return t.Position.IndentNum > maxColumn, in.keys > maxKeys
	}
	return len(s.flow) > maxDepth, false
}

// closeBeyond forgets the mappings that a token at this column ends.
func (s *shape) closeBeyond(column int) {
	for n := len(s.block); n > 0 && s.block[n-1].column > column; n-- {
		s.block = s.block[:n-1]
	}
}
