package api_test

import (
	"os"
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/sdk/sdktest"
)

func TestMain(m *testing.M) {
	sdktest.OwnConnections()
	os.Exit(m.Run())
}
