package streams

import (
	"encoding/binary"
	"errors"
	"net"
	"time"

	"golang.org/x/time/rate"
)

const (
	typeData = 0
	typePing = 2
	flagSYN  = 1
	// mostPings is how many pings may come at once, and pingEvery how often one on average. A peer sends one each keepAlive.
	mostPings = 10
	pingEvery = time.Second
)

var errPings = errors.New("the other side pings without end")

// pinged ends the session of a peer that pings without end. yamux answers each ping in a goroutine of its own, which waits for as
// long as the peer does not read: a peer could fill the memory with them.
type pinged struct {
	net.Conn
	header []byte // of the next frame, as far as it came
	data   int64  // bytes that come before it
	pings  *rate.Limiter
}

func limitPings(conn net.Conn) net.Conn {
	return &pinged{Conn: conn, pings: rate.NewLimiter(rate.Every(pingEvery), mostPings)}
}

func (c *pinged) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if skip := min(c.data, int64(len(rest))); skip > 0 {
			c.data, rest = c.data-skip, rest[skip:]
			continue
		}
		part := min(headerSize-len(c.header), len(rest))
		c.header, rest = append(c.header, rest[:part]...), rest[part:]
		if len(c.header) < headerSize {
			break
		}
		switch c.header[1] {
		case typeData:
			c.data = int64(binary.BigEndian.Uint32(c.header[8:]))
		case typePing:
			if binary.BigEndian.Uint16(c.header[2:])&flagSYN != 0 && !c.pings.Allow() {
				return 0, errPings
			}
		}
		c.header = c.header[:0]
	}
	return n, err //nolint:wrapcheck // the session compares it
}
