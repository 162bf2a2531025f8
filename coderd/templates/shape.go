package templates

import "github.com/goccy/go-yaml/token"

const (
	// maxColumn bounds the nesting of block style, where each level costs at least one column.
	maxColumn = 8 * maxDepth
	// maxKeys of one mapping: the parser's time grows with their square.
	maxKeys = 1_000
)

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
	s := shape{block: map[int]int{}}
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
	flow  []int       // keys seen in each [ or { that is open
	block map[int]int // keys seen in each mapping of block style that is open, by column
}

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
		s.block[column]++
		return t.Position.IndentNum > maxColumn, s.block[column] > maxKeys
	}
	return len(s.flow) > maxDepth, false
}

// closeBeyond forgets the mappings that a token at this column ends.
func (s *shape) closeBeyond(column int) {
	for c := range s.block {
		if c > column {
			delete(s.block, c)
		}
	}
}
