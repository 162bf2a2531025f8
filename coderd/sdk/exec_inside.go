package sdk

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
	"golang.org/x/xerrors"
)

// ExecOver is Exec over a WebSocket at an address of the caller's, such as that of an agent behind a tunnel.
func ExecOver(ctx context.Context, client *http.Client, address string, header http.Header, req ExecRequest) (exitCode int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header}) //nolint:bodyclose // nothing is left to close
	if err != nil && resp != nil && resp.StatusCode >= 300 {
		return 0, readError(resp)
	}
	if err != nil {
		return 0, xerrors.Errorf("open connection: %w", err)
	}
	return execOn(ctx, conn, req)
}
