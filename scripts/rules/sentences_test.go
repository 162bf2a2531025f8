package rules

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same cases hold for the counter of the pages: site/src/words.test.ts.
func TestSentences(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/sentences.json")
	require.NoError(t, err)
	var cases []struct {
		Text  string
		Words []int
	}
	require.NoError(t, json.Unmarshal(file, &cases))
	require.NotEmpty(t, cases)
	for _, tc := range cases {
		words := []int{}
		for _, s := range sentences(block{1, tc.Text}) {
			words = append(words, s.words)
		}
		assert.Equal(t, tc.Words, words, tc.Text)
	}
}

// Code is left out or one word; each heading, paragraph, list item and cell is a text of its own, at its own line.
func TestBlocks(t *testing.T) {
	t.Parallel()
	const page = "# A heading\nA paragraph with `some code\nhere` and [a link](x.md#y).\nIts end:\n- one\n  two\n- three\n\n" +
		"```sh\nnot this\n```\n| a | `b \\| c` |\n| --- | --- |\n<!-- nor\nthis -->\n> A quote.\n"
	var found []block
	for _, b := range blocks(page) {
		if len(sentences(b)) > 0 && sentences(b)[0].words > 0 {
			found = append(found, b)
		}
	}
	assert.Equal(t, []block{
		{1, " A heading"},
		{2, "A paragraph with `x`\n and a link.\nIts end:"},
		{5, "one\n  two"},
		{7, "three"},
		{12, " a "},
		{12, " `x` "},
		{16, "A quote."},
	}, found)
}
