package storm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/chaos/judge"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// follow reads the journal of the cloud as it grows, until ctx ends and everything is read, and notes between which
// times each line was written.
func follow(ctx context.Context, t testing.TB, root string) (events []judge.Event) {
	path := filepath.Join(root, "journal")
	var f *os.File
	var lines *bufio.Reader
	var rest string      // of a line that is not whole yet
	var before time.Time // what was there already may be from any time
	for ended := false; ; {
		now := time.Now()
		if f == nil {
			if opened, err := os.Open(path); err == nil {
				f, lines = opened, bufio.NewReader(opened)
				defer f.Close()
			}
		}
		for f != nil {
			part, err := lines.ReadString('\n')
			rest += part
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("read journal: %v", err)
				return events
			}
			var e sim.Event
			if err := json.Unmarshal([]byte(strings.TrimSpace(rest)), &e); err != nil {
				t.Errorf("read journal: %v: %q", err, rest)
				return events
			}
			rest = ""
			events = append(events, judge.Event{
				Deleted: e.Deleted, ProviderID: e.ProviderID, WorkspaceID: e.WorkspaceID,
				NotBefore: before, NotAfter: time.Now(),
			})
		}
		before = now
		if ended {
			return events
		}
		select {
		case <-ctx.Done():
			ended = true
		case <-time.After(poll):
		}
	}
}
