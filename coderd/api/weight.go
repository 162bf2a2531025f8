package api

import (
	"encoding/json"

	"golang.org/x/xerrors"
)

// mostWeight of the entries of a page, in bytes of JSON: a page that would be heavier ends before its limit, and the rest
// is on the next one. What is long is mostly what providers said of failures, so that lists are at their heaviest in an
// outage, when everybody looks.
const mostWeight = 900_000

// firstOf is as much as was asked for of what was read, which is one more than that if there is more.
func firstOf[T any](read []T, limit int32) (page []T, more bool) {
	n := min(len(read), int(limit))
	return read[:n], n < len(read)
}

// fitting is the entries that fit into a page, of which the first always does, and the place of the last of them, after which
// the next page begins; the zero place on the last page. more says whether there are others after the entries.
func fitting[T any, P string | int64](entries []T, more bool, place func(T) P) (page []T, next P, err error) {
	var scale counter
	encoder := json.NewEncoder(&scale)
	encoder.SetEscapeHTML(false) // as answers are written
	for i, entry := range entries {
		if err := encoder.Encode(entry); err != nil {
			return nil, next, xerrors.Errorf("weigh entry of list: %w", err)
		}
		if scale > mostWeight && i > 0 {
			return entries[:i], place(entries[i-1]), nil
		}
	}
	if more && len(entries) > 0 {
		next = place(entries[len(entries)-1])
	}
	return entries, next, nil
}

// counter counts what is written to it. Entries end with a line break there, and with a comma in a list.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
