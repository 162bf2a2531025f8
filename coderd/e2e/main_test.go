package e2e_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

// rounds is how often a storm runs: a few times in CI, PREWARM_ROUNDS times in `make test-long`.
func rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("PREWARM_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return few
}
