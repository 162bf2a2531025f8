package deploy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Bodies that do not come wait at HAProxy, whose limits end them: no replica sees them, and others are served meanwhile.
func TestHAProxy_slowBodies(t *testing.T) {
	t.Parallel()
	servers := e2etest.StartAll(t, 3, e2etest.Options{
		PostgresURL: dbtest.URL(t), Tick: time.Second, Args: []string{"--trusted-proxies", "127.0.0.1"},
	})
	b := startBalancer(t, [3]string{strings.TrimPrefix(servers[0].URL, "http://"), strings.TrimPrefix(servers[1].URL, "http://"), strings.TrimPrefix(servers[2].URL, "http://")})
	b.awaitUp()
	flood := make([]net.Conn, 500)
	for i := range flood {
		var err error
		flood[i], err = net.Dial("tcp", b.address)
		require.NoError(t, err)
		defer flood[i].Close()
		_, err = fmt.Fprintf(flood[i], "POST /api/v1/claims HTTP/1.1\r\nHost: %s\r\nContent-Length: 9000\r\n\r\n{", b.address)
		require.NoError(t, err)
	}
	honest := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for range 20 {
		res, err := honest.Get("http://" + b.address + "/readyz")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	require.NoError(t, flood[0].SetReadDeadline(time.Now().Add(time.Minute)))
	res, err := http.ReadResponse(bufio.NewReader(flood[0]), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusRequestTimeout, res.StatusCode, "HAProxy ends it")
	for _, s := range servers {
		require.NotContains(t, s.Log(), "path=/api/v1/claims", "nothing of it reached a replica")
	}
}
