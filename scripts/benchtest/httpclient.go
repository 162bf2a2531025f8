package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// httpConn is a client that costs little itself, like the load generators it is compared with: one connection, one
// request at a time, HTTP/1.1 as any client sends it.
type httpConn struct {
	conn    net.Conn
	reader  *bufio.Reader
	address string
	token   string
	out     []byte
}

func dialHTTP(address, token string) *httpConn {
	conn := get(net.Dial("tcp", address))
	return &httpConn{conn: conn, reader: bufio.NewReader(conn), address: address, token: token}
}

func (c *httpConn) close() { _ = c.conn.Close() }

func (c *httpConn) claim(_ context.Context, p pool) uuid.UUID {
	body := `{"template":"` + p.name + `","preset":"default","mode":"require"}`
	c.out = fmt.Appendf(c.out[:0], "POST /api/v1/claims HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.address, c.token, len(body), body)
	get(c.conn.Write(c.out))
	res := get(http.ReadResponse(c.reader, nil))
	answer := get(io.ReadAll(res.Body))
	if res.StatusCode != http.StatusOK {
		fail("%s: %s", res.Status, answer)
	}
	var got sdk.Claim
	must(json.Unmarshal(answer, &got))
	if got.WorkspaceID == nil {
		return uuid.Nil
	}
	return *got.WorkspaceID
}
