package templates

import (
	"context"
	"strings"

	"github.com/goccy/go-yaml/token"
	"golang.org/x/sync/semaphore"
	"golang.org/x/xerrors"
)

const (
	// maxColumn bounds the nesting of block style, where each level costs at least one column.
	maxColumn = 8 * maxDepth
	// maxKeys of one mapping: the parser's time grows with their square.
	maxKeys = 1_000
	// maxMarks bounds what a file costs before a token of it exists: a mark costs up to a kilobyte, and in the worst
	// orders the parser's time grows with the square of their number. A file that is within it takes less than a second and
	// less than 100 MB.
	maxMarks = 1 << 16
)

// reading bounds what all files cost that are read at the same time: the largest is read alone.
var reading = semaphore.NewWeighted(maxMarks)

// parseAlone is parse, once nobody else's file is in the way.
func parseAlone(ctx context.Context, file, source string, problems *Problems) (*Document, error) {
	weight := min(maxMarks, int64(max(1, marks(source))))
	if err := reading.Acquire(ctx, weight); err != nil {
		return nil, xerrors.Errorf("wait until other files are read: %w", err)
	}
	defer reading.Release(weight)
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
		if deep || wide || problems.full() {
			return false
		}
	}
	return len(problems.List) == before
}

// shape follows how deep and how wide a file is, one token after the other.
type shape struct {
	flow  []int        // keys seen in each [ or { that is open
	block []blockStyle // mappings of block style that are open, each further right than the one before
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
