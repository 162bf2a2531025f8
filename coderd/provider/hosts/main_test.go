package hosts_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// folder is where the program of agents is built.
var folder string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "prewarm-hosts-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	return m.Run()
}

const (
	// deadline is generous: the machines of a test share one that is busy with much else.
	deadline = 2 * time.Minute
	// cutOff is in which time a create is cut off at any point: about as long as one takes.
	cutOff = 60 * time.Millisecond
)

// rounds is how often a test does what chance decides: few times with all other tests, PREWARM_ROUNDS in `make test-long`.
func rounds(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("PREWARM_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
