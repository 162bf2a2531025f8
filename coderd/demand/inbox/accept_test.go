package inbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each delivery is shown to people and kept for days. So its id and event must be short, and visible ASCII, and its body
// must be JSON.
func TestAccept_malformed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	longestID, longestEvent := strings.Repeat("d", 200), strings.Repeat("e", 100)
	for _, c := range []struct{ id, event, body string }{
		{longestID, longestEvent + "e", "{}"},
		{longestID, "a job", "{}"},
		{longestID, "job\x7f", "{}"},
		{longestID, "größe", "{}"},
		{"d 1", longestEvent, "{}"},
		{longestID, longestEvent, "{"},
	} {
		d := queuedJob(1, "")
		d.body = []byte(c.body)
		d.header.Set("X-GitHub-Delivery", c.id)
		d.header.Set("X-GitHub-Event", c.event)
		sign(d, secret)
		_, err := s.Accept(t.Context(), d.entity, d.header, d.body)
		require.ErrorIs(t, err, ErrMalformed, "%+v", c)
	}
	require.Zero(t, w.count("SELECT count(*) FROM forge_deliveries"))

	longest := queuedJob(1, "")
	longest.header.Set("X-GitHub-Delivery", longestID)
	longest.header.Set("X-GitHub-Event", longestEvent)
	w.accept(s, longest)
	require.Equal(t, 1, w.count("SELECT count(*) FROM forge_deliveries"))
}
