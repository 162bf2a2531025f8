package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// pages serves 1,234 workspaces in pages of at most 500.
func pages(t *testing.T) *fakeServer {
	t.Helper()
	return newFakeServer(t, map[string]answer{"GET /workspaces": {handle: func(w http.ResponseWriter, r *http.Request) {
		const total = 1234
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		if limit < 1 || limit > 500 {
			t.Errorf("asked for a page of %d", limit)
		}
		var list sdk.WorkspaceList
		for i := after; i < min(after+limit, total); i++ {
			list.Workspaces = append(list.Workspaces, sdk.Workspace{Name: fmt.Sprint(i)})
		}
		if after+limit < total {
			list.Next = strconv.Itoa(after + limit)
		}
		_, _ = io.WriteString(w, mustJSON(t, list))
	}}})
}

// A listing is complete however many pages it takes, and no longer than asked for.
func TestWorkspaceListReadsAllPages(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]int{"0": 1234, "1": 1, "500": 500, "501": 501, "9999": 1234} {
		got := newShell(t, pages(t).URL).run("workspace", "list", "-o", "json", "--limit", limit)
		var workspaces []sdk.Workspace
		if err := json.Unmarshal([]byte(got.stdout), &workspaces); err != nil || len(workspaces) != want {
			t.Errorf("--limit %s gave %d, %v", limit, len(workspaces), err)
		}
		for i, w := range workspaces {
			if w.Name != fmt.Sprint(i) {
				t.Fatalf("--limit %s: number %d is %s", limit, i, w.Name)
			}
		}
	}
}

func TestWorkspaceLogs(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	got := newShell(t, server.URL).run("workspace", "logs", testWorkspace.Name, "-f")
	if want := (outcome{0, "setting up\nready\n", ""}); got != want {
		t.Error(got)
	}
	if asked := server.asked(); len(asked) != 1 || !strings.HasSuffix(asked[0], "/logs?follow=true") {
		t.Errorf("asked %v", asked)
	}
}

// A terminal gets colours and escapes, and with --raw what the workspace wrote; a pipe gets that always.
func TestWorkspaceLogs_hostile(t *testing.T) {
	t.Parallel()
	const wrote = "\x1b[32mok\x1b[0m \x1b[2J\u202eowned\nend of it"
	server := newFakeServer(t, map[string]answer{
		"GET /workspaces/" + testWorkspace.Name + "/logs": {body: wrote},
	})
	if got := newShell(t, server.URL).run("workspace", "logs", testWorkspace.Name); got.stdout != wrote {
		t.Errorf("a pipe got %q", got.stdout)
	}
	for flag, want := range map[string]string{"--follow=false": "\x1b[32mok\x1b[0m \\x1b[2J\\u202eowned\r\nend of it", "--raw": strings.ReplaceAll(wrote, "\n", "\r\n")} {
		ours, theirs, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		status := newShell(t, server.URL).app(theirs, io.Discard).run(t.Context(), []string{"workspace", "logs", testWorkspace.Name, flag})
		if screen := readUntil(t, ours, "end of it"); status != 0 || screen != want {
			t.Errorf("%s: status %d, and a terminal got %q", flag, status, screen)
		}
		_, _ = ours.Close(), theirs.Close()
	}
}

// release --wait looks until the workspace is gone, or used again by another.
func TestReleaseWaits(t *testing.T) {
	t.Parallel()
	gone, reused := testWorkspace, testWorkspace
	gone.State = "deleted"
	reused.State, reused.Incarnation = "ready", 2
	for name, test := range map[string]struct {
		last answer
		want string
	}{
		"deleted":   {answer{body: mustJSON(t, gone)}, "it is deleted"},
		"purged":    {answer{status: 404, body: `{"detail":"no such workspace"}`}, "it is deleted"},
		"used anew": {answer{body: mustJSON(t, reused)}, "it is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var looks atomic.Int32
			server := newFakeServer(t, answers(t))
			draining := testWorkspace
			draining.State = "draining"
			route := "GET /workspaces/" + testWorkspace.ID.String()
			server.answer(route, answer{handle: func(w http.ResponseWriter, _ *http.Request) {
				if looks.Add(1) == 3 {
					server.answer(route, test.last)
				}
				_, _ = io.WriteString(w, mustJSON(t, draining))
			}})
			got := waiting(t, newShell(t, server.URL), "workspace", "release", testWorkspace.Name, "--wait")
			if got.status != 0 || !strings.Contains(got.stdout, test.want) || looks.Load() != 3 {
				t.Errorf("after %d looks: %s", looks.Load(), got)
			}
		})
	}
}

func TestReleaseDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	draining := testWorkspace
	draining.State = "draining"
	server.answer("GET /workspaces/"+testWorkspace.ID.String(), answer{body: mustJSON(t, draining)})
	got := waiting(t, newShell(t, server.URL), "workspace", "release", testWorkspace.Name, "--wait", "--timeout", "3s")
	if got.status != 1 || !strings.Contains(got.stderr, "is still draining after 3s") {
		t.Error(got)
	}
}

// waiting runs a command that looks at a workspace every now and then, with time passing as fast as it can.
func waiting(t *testing.T, sh *shell, args ...string) outcome {
	t.Helper()
	trap := sh.clock.Trap().TickerFunc("workspace", "wait")
	defer trap.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan outcome, 1)
	go func() { done <- sh.run(args...) }()
	trap.MustWait(ctx).MustRelease(ctx)
	for ctx.Err() == nil {
		select {
		case got := <-done:
			return got
		default:
			sh.clock.Advance(200 * time.Millisecond).MustWait(ctx)
		}
	}
	t.Fatal("it waits for ever")
	return outcome{}
}

// A script is not asked.
func TestDeleteWithoutATerminal(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	got := newShell(t, server.URL).run("template", "delete", "quickstart")
	if got.status != 0 || len(server.asked()) != 1 {
		t.Error(got)
	}
}

// A person on a terminal is asked before anything is deleted.
func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	for typed, status := range map[string]int{"y\n": 0, "YES\n": 0, "\n": 1, "n\n": 1, "what\n": 1} {
		t.Run(strings.TrimSpace(typed), func(t *testing.T) {
			t.Parallel()
			ours, theirs, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = ours.Close(), theirs.Close() }()
			if _, err := io.WriteString(ours, typed); err != nil {
				t.Fatal(err)
			}
			server := newFakeServer(t, answers(t))
			sh := newShell(t, server.URL)
			sh.stdin = theirs
			got := sh.run("workspace", "delete", testWorkspace.Name)
			if got.status != status || !strings.Contains(got.stderr, "for good? [y/N]") {
				t.Error(got)
			}
			if deleted := len(server.asked()) > 0; deleted != (status == 0) {
				t.Errorf("%q: deleted is %v", typed, deleted)
			}
		})
	}
}
