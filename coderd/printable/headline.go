package printable

import (
	"regexp"
	"strings"
	"unicode"
)

const (
	mostSaid   = 300 // characters of a headline's first part, from its beginning
	mostFailed = 120 // characters of the part in parentheses
)

var (
	colours  = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
	lineEnds = regexp.MustCompile(`[\r\n]+`)
	// output is how the first line of a fault leads over to the output below it.
	output = regexp.MustCompile(`[;,]? (its )?(last )?output:?$|:$`)
)

// Headline is a fault on one line: its last line that says something, which is where programs write what went wrong, then
// in parentheses its first line, which says what failed. "setup ended with exit status 128; its last output:" above
// "fatal: repository not found" is "fatal: repository not found (setup ended with exit status 128)". A fault of one line is
// its own headline. It has at most 300 characters of the one, and 120 of the other.
func Headline(fault string) string {
	var said []string
	for _, line := range lineEnds.Split(colours.ReplaceAllString(fault, ""), -1) {
		if line = strings.TrimSpace(line); strings.ContainsFunc(line, unicode.IsLetter) {
			said = append(said, line)
		}
	}
	switch len(said) {
	case 0:
		return atMost(strings.Join(strings.Fields(fault), " "), mostSaid)
	case 1:
		return atMost(strings.TrimSuffix(said[0], "; its last output:"), mostSaid)
	}
	failed := output.ReplaceAllString(said[0], "")
	return atMost(said[len(said)-1], mostSaid) + " (" + atMost(failed, mostFailed) + ")"
}

func atMost(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return strings.TrimSpace(string(r[:most-1])) + "…"
	}
	return text
}

// BothEnds is a fault in at most so many characters: of a longer one its first line, and its end. What lies between is left
// out, since the end is what says why.
func BothEnds(fault string, most int) string {
	r := []rune(fault)
	if len(r) <= most {
		return fault
	}
	first, _, _ := strings.Cut(fault, "\n")
	first = atMost(first, most/4) + "\n…\n"
	return first + string(r[len(r)-(most-len([]rune(first))):])
}
