package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/streams"
)

// mostOfStreams is how much more memory 10,000 connections at once may cost a replica: 64 KiB each.
const mostOfStreams = 10_000 * 64 << 10

// at is a client whose connections come from an address of this machine.
func at(c *sdk.Client, address string) *sdk.Client {
	of := *c
	of.HTTPClient = &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext, DisableKeepAlives: true,
	}}
	return &of
}

// A user opens 10,000 streams at once, through one tunnel and through several of one replica. There are as many as the limits say,
// each of the others is refused, memory is bounded, and another user is served meanwhile and after it.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	const attempts, perUser, workspaces = 10_000, 600, 4
	servers := fleet(t, 1, "--max-streams-per-user", fmt.Sprint(perUser))
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, workspaces+1)
	as := users(t, servers[0].URL, owner)
	alice, bob := as("alice", "member"), at(as("bob", "member"), "127.0.0.9")
	var mine []entered
	for range workspaces {
		mine = append(mine, enter(t, alice))
	}
	neighbour := enter(t, bob)
	program := listening(t, func(c *net.TCPConn) { _, _ = c.Write([]byte("x")); _, _ = io.Copy(io.Discard, c) })
	var from []*sdk.Client // one address may not have all connections of a replica
	for i := range 5 {
		from = append(from, at(alice, fmt.Sprintf("127.0.0.%d", 2+i)))
	}
	for name, test := range map[string]struct{ tunnels, most int }{
		"through one tunnel": {1, streams.Most}, "through the tunnels of one replica": {workspaces, perUser},
	} {
		t.Run(name, func(t *testing.T) {
			pids := []int{servers[0].PID()}
			for _, w := range mine {
				pids = append(pids, agentPID(t, show(t, owner, w.name)))
			}
			memory := e2etest.WatchMemory(t, pids...)
			var open, refused, cut atomic.Int64
			var mu sync.Mutex
			var held []*sdk.Stream
			var opening sync.WaitGroup
			served := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { served <- neighbourly(ctx, bob, neighbour.name) }()
			for i := range attempts {
				opening.Go(func() {
					stream, err := from[i%len(from)].DialPort(t.Context(), mine[i%test.tunnels].name, program)
					if err == nil {
						_, err = io.ReadFull(stream, make([]byte, 1))
					}
					switch status := sdk.StatusOf(err); {
					case err == nil:
						open.Add(1)
						mu.Lock()
						held = append(held, stream)
						mu.Unlock()
					case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
						refused.Add(1)
					case status == 0: // there were too many connections from its address, or the network's queue was full
						cut.Add(1)
					default:
						t.Errorf("another refusal: %v", err)
					}
				})
			}
			opening.Wait()
			t.Logf("%d streams, %d refused, %d connections closed; at most %d MiB more memory", open.Load(), refused.Load(), cut.Load(), memory.More(t)>>20)
			require.LessOrEqual(t, open.Load(), int64(test.most))
			require.Greater(t, open.Load(), int64(test.most/2))
			require.Greater(t, refused.Load(), int64(test.most))
			_, err := alice.DialPort(t.Context(), mine[0].name, program)
			require.Equal(t, http.StatusTooManyRequests, sdk.StatusOf(err), "%v", err)
			require.NoError(t, neighbourly(t.Context(), bob, neighbour.name), "another user is served while all of these are open")
			require.NoError(t, <-served)
			require.Less(t, memory.More(t), int64(mostOfStreams))
			for _, stream := range held {
				stream.Cut()
			}
			eventually(t, "room for another", func() bool {
				stream, err := alice.DialPort(t.Context(), mine[0].name, program)
				if err == nil {
					stream.Cut()
				}
				return err == nil
			})
		})
	}
}

// neighbourly runs some commands.
func neighbourly(ctx context.Context, c *sdk.Client, name string) error {
	for range 5 {
		p, err := c.StartProcess(ctx, name, sdk.ProcessStart{Shell: "echo well"})
		if err != nil {
			return err
		}
		said := ""
		if _, err = c.FollowProcess(ctx, name, p.ID, 0, func(o sdk.ProcessOutput) error { said += o.Text; return nil }); err != nil {
			return err
		}
		if said != "well\n" {
			return errors.New("another output")
		}
	}
	return nil
}
