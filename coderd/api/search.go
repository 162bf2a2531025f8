package api

import "strings"

// searched is how many rows of a history one search looks at. A page of them costs some tens of milliseconds, whatever there is.
// A page that ends there has a next one, which goes on.
const searched = 20_000

// patterns are the words of a text for ILIKE ALL: each must be in what a row is found by, in any case, anywhere. Nil where the
// text has no word, which matches everything.
func patterns(q string) []string {
	var words []string
	for _, word := range strings.Fields(q) {
		words = append(words, "%"+strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(word)+"%")
	}
	return words
}
