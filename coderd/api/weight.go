package api

import (
	"encoding/json"

	"golang.org/x/xerrors"
)

// mostWeight of the entries of a page, in bytes of JSON: a page that would be heavier ends before its limit, and the rest
// is on the next one. What is long is mostly what providers said of failures, so that lists are at their heaviest in an
// outage, when everybody looks.
const mostWeight = 900_000

// fitting is how many of the entries fit into a page. The first always does.
func fitting[T any](entries []T) (int, error) {
	var scale counter
	encoder := json.NewEncoder(&scale)
	encoder.SetEscapeHTML(false) // as answers are written
	for i, entry := range entries {
		if err := encoder.Encode(entry); err != nil {
			return 0, xerrors.Errorf("weigh entry of list: %w", err)
		}
		if scale > mostWeight && i > 0 {
			return i, nil
		}
	}
	return len(entries), nil
}

// counter counts what is written to it. Entries end with a line break there, and with a comma in a list.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
