package serve

import (
	"context"
	"syscall"
)

// Gone says whether the client of a request has closed its connection, or lost it. The request's context says so too, but a moment
// later: it ends when a goroutine has read the end of the connection, and in a process that was frozen that one may be the last to
// run. False where that is not known.
func Gone(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return false
	}
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = control.Control(func(fd uintptr) { gone = ended(int(fd)) })
	return gone || err != nil // it is closed on this side
}
