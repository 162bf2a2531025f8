package processes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// serve is a table and where it is served.
func serve(t *testing.T) (*Table, string) {
	t.Helper()
	table := New(Options{
		Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: t.TempDir(), Clock: quartz.NewReal(), Log: slog.Make(), Grace: time.Second,
	})
	server := httptest.NewServer(table.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(table.Close)
	return table, server.URL
}

func post(t *testing.T, url, claim string, body any) *http.Response {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set(sdk.ClaimHeader, claim)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// read returns all bytes, how many are cut, and the exit code.
func read(t *testing.T, from io.Reader) (output []byte, cut int64, code int) {
	t.Helper()
	for lines := json.NewDecoder(from); ; {
		var line sdk.ProcessOutput
		require.NoError(t, lines.Decode(&line))
		require.Equal(t, cut+int64(len(output)), line.Offset, "no gap and no repetition")
		output, cut = append(output, line.Bytes()...), cut+line.Cut
		if line.ExitCode != nil {
			return output, cut, *line.ExitCode
		}
	}
}

const big = `i=0; while [ $i -lt 3000 ]; do printf '%01000d' $i; i=$((i+1)); done` // 3 MB

// Who follows gets every byte, however much it is; who comes later gets the last MiB, and finds how much is missing.
func TestOutput(t *testing.T) {
	t.Parallel()
	_, url := serve(t)
	got, cut, code := read(t, post(t, url+"/run", "a", sdk.ProcessStart{Shell: big}).Body)
	require.Zero(t, code)
	require.Zero(t, cut)
	require.Len(t, got, 3_000_000)

	var p sdk.Process
	require.NoError(t, json.NewDecoder(post(t, url+"/processes", "a", sdk.ProcessStart{Shell: big}).Body).Decode(&p))
	table := func(path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/processes/"+p.ID.String()+path, nil)
		require.NoError(t, err)
		req.Header.Set(sdk.ClaimHeader, "a")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	for p.ExitCode == nil { // nobody reads, and it goes on
		require.NoError(t, json.NewDecoder(table("/wait").Body).Decode(&p))
	}
	rest, cut, _ := read(t, table("/output?follow=true").Body)
	require.Equal(t, int64(3_000_000-Kept), cut)
	require.Equal(t, got[cut:], rest)
}

// A reader that does not read holds the process up, and costs no more than what is kept. Once it is gone the process goes on.
func TestOutput_slowReader(t *testing.T) {
	t.Parallel()
	o := newOutput()
	r, detach := o.attach(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = writer{o, stdout}.Write(bytes.Repeat([]byte("x"), 3*Kept))
		o.finish()
	}()
	require.Eventually(t, func() bool { _, stuck := o.state(); _, end := o.bounds(); return stuck && end == Kept }, time.Minute, time.Millisecond)
	p, ok := o.next(r, true)
	require.True(t, ok)
	o.read(r, len(p.data))
	require.Eventually(t, func() bool { _, end := o.bounds(); return end == Kept+int64(len(p.data)) }, time.Minute, time.Millisecond)
	detach()
	<-done
	start, end := o.bounds()
	require.Equal(t, []int64{2 * Kept, 3 * Kept}, []int64{start, end})
}

// Characters stay whole, bytes that are none come as they are, and streams stay apart.
func TestOutput_text(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]int{"plain": 5, "h\xc3\xa9": 3, "h\xc3": 1, "\xc3": 1, "\xff\xfe": 2, "a\xff": 2, "\xf0\x9f\x98": 3, "ab\xf0\x9f\x98": 2} {
		line := sdk.ProcessOutput{}
		n := fill(&line, piece{stream: stderr, data: []byte(data)})
		require.Equal(t, want, n, "%q", data)
		require.Equal(t, data[:n], string(line.Bytes()))
		require.Equal(t, "stderr", line.Stream)
	}
}

// What one claim left is ended by a request of the next, which finds nothing of it.
func TestClaims(t *testing.T) {
	t.Parallel()
	table, url := serve(t)
	first := post(t, url+"/run", "a", sdk.ProcessStart{Shell: "echo secret; exec sleep 1000"}).Body
	line := make([]byte, 1)
	_, err := io.ReadFull(first, line)
	require.NoError(t, err)
	resp := post(t, url+"/run", "b", sdk.ProcessStart{Shell: "echo mine"})
	got, _, _ := read(t, resp.Body)
	require.Equal(t, "mine\n", string(got))
	require.Len(t, table.list(), 1)
	_, err = io.ReadAll(first) // it has an end
	require.NoError(t, err)
	table.Close()
	require.Equal(t, http.StatusConflict, post(t, url+"/run", "b", sdk.ProcessStart{Shell: "true"}).StatusCode)
}

// A child that keeps the output open does not keep the end from being seen.
func TestBackground(t *testing.T) {
	t.Parallel()
	_, url := serve(t)
	got, _, code := read(t, post(t, url+"/run", "a", sdk.ProcessStart{Shell: "sleep 1000 & echo $!; exit 4"}).Body)
	require.Equal(t, 4, code)
	child, err := strconv.Atoi(strings.TrimSpace(string(got)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL), "it goes on")
}

// A process that ran for long is known when it has ended, however many have begun and ended meanwhile.
func TestTable_forgetsWhatEndedFirst(t *testing.T) {
	t.Parallel()
	table, _ := serve(t)
	last := func(p *process) {
		require.Eventually(t, func() bool {
			table.mu.Lock()
			defer table.mu.Unlock()
			return len(table.ended) > 0 && table.ended[len(table.ended)-1] == p
		}, time.Minute, time.Millisecond, "the end of a process")
	}
	long, err := table.start(sdk.ProcessStart{Shell: "cat", Stdin: true})
	require.NoError(t, err)
	short := make([]*process, mostEnded)
	for i := range short {
		short[i], err = table.start(sdk.ProcessStart{Command: []string{"true"}})
		require.NoError(t, err)
		last(short[i])
	}
	long.run.kill()
	last(long)
	_, err = table.process(long.info.ID.String())
	require.NoError(t, err)
	_, err = table.process(short[0].info.ID.String())
	require.ErrorIs(t, err, errUnknown, "what ended first is forgotten")
	_, err = table.process(short[1].info.ID.String())
	require.NoError(t, err)
	require.Len(t, table.list(), mostEnded)
}
