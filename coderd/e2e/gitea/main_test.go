package gitea_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

// folderVariable names where scripts/gitea.sh has put Gitea and its runner.
const folderVariable = "PREWARM_GITEA"

var update = flag.Bool("update", false, "record testdata anew")

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(folderVariable) == "" {
		fmt.Fprintln(os.Stderr, "the tests with a real Gitea are left out: make gitea-e2e runs them")
		return
	}
	e2etest.Main(m)
}
