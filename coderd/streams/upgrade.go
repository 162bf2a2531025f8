package streams

import (
	"bufio"
	"net"
	"net/http"

	"github.com/coder/websocket"
	"golang.org/x/xerrors"
)

// idleBuffer is what a WebSocket reads and writes through, each way. What is longer passes it. Most connections have nothing to
// say: net/http would have them hold 8 KiB for that.
const idleBuffer = 1 << 10

// Upgrade accepts a WebSocket of which there may be many that are idle.
func Upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return websocket.Accept(narrow{w}, r, nil) //nolint:wrapcheck // it is answered
}

// narrow has small buffers where its connection is taken over.
type narrow struct{ http.ResponseWriter }

func (w narrow) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, has, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, xerrors.Errorf("take over connection: %w", err)
	}
	if has.Reader.Buffered() > 0 { // sent without waiting for the answer
		return conn, has, nil
	}
	return conn, bufio.NewReadWriter(bufio.NewReaderSize(conn, idleBuffer), bufio.NewWriterSize(conn, idleBuffer)), nil
}
