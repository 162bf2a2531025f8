package e2e_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// A client announces messages of 2 GiB and sends on: to a port they pass, in little memory, and elsewhere the connection is closed.
// So does a program on a port towards its client. TestHostileAgent has what comes from an agent.
func TestHugeMessages(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2)
	c := servers[0].Client
	apply(t.Context(), t, c, enterable, 1)
	e := enter(t, servers[0].Client, servers[1].Client)
	reader, err := c.StartProcess(t.Context(), e.name, sdk.ProcessStart{Shell: "cat >/dev/null", Stdin: true})
	require.NoError(t, err)
	got := make(chan int64, 1)
	sink := listening(t, func(conn *net.TCPConn) { n, _ := io.CopyN(io.Discard, conn, poured); got <- n })
	source := listening(t, func(conn *net.TCPConn) { endless(conn, "x", 1<<40) })
	pids := []int{servers[0].PID(), servers[1].PID(), agentPID(t, show(t, c, e.name))}

	for _, through := range e.clients {
		memory := e2etest.WatchMemory(t, pids...)
		for name, path := range map[string]string{
			"exec": "/exec", "attach": "/processes/" + reader.ID.String() + "/attach",
		} {
			conn, in := rawWebSocket(t, through, "/workspaces/"+e.name+path)
			start := `{"command":["cat"]}`
			_, err := conn.Write(append([]byte{0x81, 0x80 | byte(len(start)), 0, 0, 0, 0}, start...))
			require.NoError(t, err)
			_, err = conn.Write(hugeFrame(true))
			require.NoError(t, err)
			_, err = conn.Write([]byte{0}) // of its input
			require.NoError(t, err)
			go endless(conn, "x", poured)
			require.Equal(t, 1009, closedWith(t, in), "%s: a message that is too big", name)
		}
		conn, _ := rawWebSocket(t, through, "/workspaces/"+e.name+"/ports/"+strconv.Itoa(sink)+"/connect")
		_, err := conn.Write(hugeFrame(true))
		require.NoError(t, err)
		endless(conn, "x", poured)
		require.EqualValues(t, poured, <-got)
		require.NoError(t, conn.Close())

		stream, err := through.DialPort(t.Context(), e.name, source)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, stream, poured)
		require.NoError(t, err)
		stream.Cut()

		// What says its size before is refused before it comes, where it is not for a file or a port.
		resp := e.announced(t, through, "/processes", twoGiB)
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		t.Logf("%d MiB more memory", memory.More(t)>>20)
		require.Less(t, memory.More(t), int64(mostHarm))
	}
	shown, err := c.Process(t.Context(), e.name, reader.ID)
	require.NoError(t, err)
	require.Nil(t, shown.ExitCode, "the process goes on when the client goes")
}

// announced is the answer to a request that says how much would come.
func (e entered) announced(t *testing.T, c *sdk.Client, path string, size int64) *http.Response {
	t.Helper()
	u, err := url.Parse(c.URL.String() + "/api/v1/workspaces/" + e.name + path)
	require.NoError(t, err)
	begin, end := io.Pipe()
	defer end.Close()
	resp, err := http.DefaultTransport.RoundTrip(&http.Request{
		Method: http.MethodPost, URL: u, Body: begin, ContentLength: size,
		Header: http.Header{"Authorization": {"Bearer " + c.Token}, "Content-Type": {"application/json"}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// closedWith reads frames of a server until it closes, and returns its status.
func closedWith(t *testing.T, in io.Reader) int {
	t.Helper()
	for {
		var header [2]byte
		_, err := io.ReadFull(in, header[:])
		require.NoError(t, err)
		size := int(header[1])
		if size == 126 {
			var long [2]byte
			_, err = io.ReadFull(in, long[:])
			require.NoError(t, err)
			size = int(binary.BigEndian.Uint16(long[:]))
		}
		require.NotEqual(t, 127, size, errors.New("a large message of the server"))
		content := make([]byte, size)
		_, err = io.ReadFull(in, content)
		require.NoError(t, err)
		if header[0] == 0x88 {
			return int(binary.BigEndian.Uint16(content))
		}
	}
}
