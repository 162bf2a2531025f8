package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// talkers are workspaces whose output somebody may follow: of one there is a line a second, of the other as much as is kept.
const talkers = `
providers: [{name: talkers, kind: local}]
templates:
  - name: quiet
    provider: talkers
    spec: {command: [sh, -c, "while sleep 1; do date; done"]}
    presets: [{name: default, prebuilds: {instances: 1}}]
  - name: loud
    provider: talkers
    spec: {command: [sh, -c, "head -c 5000000 /dev/zero; exec sleep infinity"]}
    presets: [{name: default, prebuilds: {instances: 1}}]
`

// followers are the connections of one member who asks for more than anyone may have: to follow the output of two workspaces,
// and to hear of events. Nothing is ever read of the answers.
func followers(ctx context.Context, t *target) {
	const each = 1500
	needFiles(3*each + 500)
	get(t.client.Apply(ctx, sdk.ApplyRequest{Document: talkers}))
	defer t.forgetTalkers(ctx)
	member := t.user(ctx, "member")
	requests := []string{"events HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	for _, template := range []string{"quiet", "loud"} {
		claim := get(member.Claim(ctx, sdk.ClaimRequest{Template: template, Preset: "default", Mode: "prefer", Wait: "1m"}))
		if claim.WorkspaceID == nil {
			fail("no workspace to follow: %s", claim.Reason)
		}
		requests = append(requests, "workspaces/"+claim.WorkspaceID.String()+"/logs?follow=true HTTP/1.1")
	}
	t.beside(ctx, func(ctx context.Context, all *sync.WaitGroup) func() {
		h := held{all: all, answers: map[string]int{}}
		for range each {
			for _, r := range requests {
				h.hold(ctx, t, fmt.Sprintf("GET /api/v1/%s\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", r, t.host(), member.Token))
			}
		}
		h.asked.Wait()
		return func() { fmt.Fprintf(os.Stderr, "# %s: answers %v\n", t.name, h.answers) }
	})
}

// forgetTalkers waits until they are gone: workspaces of `local` outlive their server.
func (t *target) forgetTalkers(ctx context.Context) {
	for _, template := range []string{"quiet", "loud"} {
		must(t.client.DeleteTemplate(ctx, template))
		for _, w := range get(t.client.Workspaces(ctx, sdk.WorkspaceFilter{Template: template, State: "claimed"})).Workspaces {
			get(t.client.ReleaseWorkspace(ctx, w.Name))
		}
	}
	until(ctx, time.Minute, "workspaces are gone", func() bool {
		return one[int](ctx, t.fleet, "SELECT count(*) FROM workspaces WHERE state <> 'deleted' AND provider = 'talkers'") == 0
	})
}

// held are connections that somebody keeps open, and how the server answered there.
type held struct {
	all     *sync.WaitGroup
	asked   sync.WaitGroup
	mu      sync.Mutex
	answers map[string]int // by their first line
}

// hold sends a request, and reads no more of its answer than how it begins. Little is kept unread here: the rest has to wait
// in the server.
func (h *held) hold(ctx context.Context, t *target, request string) {
	h.asked.Add(1)
	h.all.Go(func() {
		asked := sync.OnceFunc(h.asked.Done)
		defer asked()
		conn, err := t.from(ctx, "127.0.1.1")
		if err != nil {
			h.count("no connection")
			return
		}
		defer conn.Close()
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetReadBuffer(4096)
		}
		_, _ = fmt.Fprint(conn, request)
		begins := make([]byte, 12)
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, _ := io.ReadFull(conn, begins)
		h.count(string(begins[:n]))
		asked()
		<-ctx.Done()
	})
}

func (h *held) count(answer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[answer]++
}
