package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// slowBodies are 5,000 clients without a token, each of which announces a long body, sends one byte of it, waits until the
// server ends the connection, and comes again after a while. Half of them ask for a claim, which the server refuses at once;
// the others send webhooks, whose body it has to read before it can know who signed it.
func slowBodies(ctx context.Context, t *target) {
	const clients = 5000
	needFiles(clients + 500)
	t.beside(ctx, func(ctx context.Context, all *sync.WaitGroup) func() {
		var open, connects atomic.Int64
		began := time.Now()
		for i := range clients {
			all.Go(func() { t.slowBody(ctx, i, clients, &open, &connects) })
		}
		pause(ctx, comeAgain) // all have come
		return func() {
			fmt.Fprintf(os.Stderr, "# %s: %d connections are open, %.0f were made a second\n",
				t.name, open.Load(), float64(connects.Load())/time.Since(began).Seconds())
		}
	})
}

// comeAgain is how long a client waits before it connects again, on average.
const comeAgain = 5 * time.Second

func (t *target) slowBody(ctx context.Context, i, of int, open, connects *atomic.Int64) {
	path := "/api/v1/claims"
	if i%2 == 0 {
		path = "/webhooks/forge"
	}
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n{",
		path, t.host())
	wait := time.Duration(i) * comeAgain / time.Duration(of) // not all at the same instant
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = comeAgain/2 + rand.N(comeAgain)
		conn, err := t.from(ctx, fmt.Sprintf("127.0.1.%d", 1+i%10))
		if err != nil {
			continue
		}
		connects.Add(1)
		open.Add(1)
		leave := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		_, _ = io.WriteString(conn, request)
		for answer := make([]byte, 512); err == nil; { // until the server ends it
			_, err = conn.Read(answer)
		}
		leave()
		_ = conn.Close()
		open.Add(-1)
	}
}
