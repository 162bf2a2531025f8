package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/serve"
)

// patience is a time that only a hang exceeds.
const patience = time.Minute

// start serves a handler behind a guard on a loopback port.
func start(t *testing.T, opts serve.Options, handler http.HandlerFunc) (addr string) {
	t.Helper()
	if opts.Clock == nil {
		opts.Clock = quartz.NewReal()
	}
	opts.Reserved = func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	guard := serve.New(opts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{
		Handler: guard.Handler(handler), ConnContext: guard.Context, ConnState: guard.State, ReadHeaderTimeout: patience,
	}
	go func() { _ = server.Serve(guard.Listener(l)) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// dial opens a connection and sends the text.
func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

// answer is the next response on a connection.
func answer(t *testing.T, c net.Conn) (status int, body string) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(raw)
}

// closed waits until the server has closed a connection.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, c)
	var timeout net.Error
	require.False(t, assert.ErrorAs(quiet{}, err, &timeout) && timeout.Timeout(), "the server keeps the connection open")
}

type quiet struct{}

func (quiet) Errorf(string, ...any) {}

const slow = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }

// A request that is refused is not waited for, however long its body is said to be.
func TestRefusedBody(t *testing.T) {
	t.Parallel()
	addr := start(t, serve.Options{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	c := dial(t, addr, slow)
	status, _ := answer(t, c)
	require.Equal(t, http.StatusUnauthorized, status)
	closed(t, c)
}

// Whoever still sends a body that is refused reads the answer: the connection is not reset under it.
func TestRefusedBody_isAnswered(t *testing.T) {
	t.Parallel()
	addr := start(t, serve.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	for range 50 {
		body := io.LimitReader(zeros{}, 50<<20)
		res, err := http.Post("http://"+addr, "application/json", body)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
}

// So does one that was asked for its body, and is refused in the middle of it, at once or a while after.
func TestRefusedBody_inTheMiddle(t *testing.T) {
	t.Parallel()
	addr := start(t, serve.Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadFull(r.Body, make([]byte, 512))
		w.WriteHeader(http.StatusUnprocessableEntity)
		assert.NoError(t, err)
	})
	for range 50 {
		req, err := http.NewRequest(http.MethodPut, "http://"+addr, io.LimitReader(zeros{}, 50<<20))
		require.NoError(t, err)
		req.Header.Set("Expect", "100-continue")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}

	c := dial(t, addr, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\nExpect: 100-continue\r\n\r\n"+strings.Repeat("x", 512))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	all, err := io.ReadAll(c) // the server has ended it
	require.NoError(t, err)
	require.Contains(t, string(all), "422 Unprocessable Entity")
	for range 100 {
		_, err = io.WriteString(c, strings.Repeat("x", 10_000))
		require.NoError(t, err, "what comes late is not answered with a reset")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The time in which a handler works with what came, such as handing it on to somebody slow, is not the client's.
func TestBody_slowHandler(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	clock.Set(time.Now().Add(-time.Minute)) // what is due soon after the request's begin is over
	first, read := make(chan error, 1), make(chan error, 1)
	addr := start(t, serve.Options{Clock: clock}, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadFull(r.Body, make([]byte, 1)) // came with the header
		clock.Advance(time.Minute)
		first <- err
		_, err = io.ReadAll(r.Body)
		read <- err
	})
	c := dial(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
	require.NoError(t, <-first)
	_, err := io.WriteString(c, "}")
	require.NoError(t, err)
	require.NoError(t, <-read)
}

// A body that does not come ends the request that reads it. One that has come leaves no deadline behind: the answer may
// take as long as it likes, and the client's going away is still noticed.
func TestBody(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	addr := start(t, serve.Options{}, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
		if err == nil {
			<-r.Context().Done()
			read <- r.Context().Err()
		}
	})
	dial(t, addr, slow)
	require.ErrorContains(t, <-read, "timeout")

	c := dial(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	require.NoError(t, <-read)
	require.NoError(t, c.Close())
	require.Error(t, <-read)
}

// However many hold their requests back, whoever sends one at once is served.
func TestFlood(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts serve.Options
	}{
		{"in all", serve.Options{MaxConnections: 40, MaxPerAddress: 1000}},
		{"of one address", serve.Options{MaxConnections: 1000, MaxPerAddress: 40}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			addr := start(t, tc.opts, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err == nil {
					_, _ = io.WriteString(w, "served")
				}
			})
			for _, text := range []string{slow, "GET / HTTP/1.1\r\nX-", ""} {
				flood := make([]net.Conn, 200)
				for i := range flood {
					flood[i] = dial(t, addr, text)
				}
				for range 20 {
					status, body := answer(t, dial(t, addr, get("/")))
					require.Equal(t, http.StatusOK, status)
					require.Equal(t, "served", body)
				}
				closed(t, flood[0])
			}
		})
	}
}

// Where everybody waits for an answer, nobody is closed: a further one gets a clear refusal, but health checks are answered.
func TestReservedSlots(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan bool), make(chan bool)
	addr := start(t, serve.Options{MaxConnections: 20}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			entered <- true
			<-leave
		}
		_, _ = io.WriteString(w, "served")
	})
	var waiting []net.Conn
	for range 5 { // a quarter of 20, all from this address
		waiting = append(waiting, dial(t, addr, get("/wait")))
		<-entered
	}
	status, body := answer(t, dial(t, addr, get("/")))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "too many connections are open")
	status, _ = answer(t, dial(t, addr, get("/healthz")))
	require.Equal(t, http.StatusOK, status)
	c := dial(t, addr, slow)
	status, _ = answer(t, c)
	require.Equal(t, http.StatusServiceUnavailable, status)
	closed(t, c)

	close(leave)
	for _, c := range waiting {
		status, _ = answer(t, c)
		require.Equal(t, http.StatusOK, status)
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		status, _ := answer(t, dial(t, addr, get("/")))
		return status == http.StatusOK
	}, patience, 10*time.Millisecond)
}

// What a proxy says of its clients is believed of those that are trusted, and the rest is removed.
func TestForwarded(t *testing.T) {
	t.Parallel()
	told := func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s %q", host, r.Header.Get("X-Forwarded-Proto"))
	}
	ask := func(addr string, headers ...string) string {
		_, body := answer(t, dial(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n"+strings.Join(headers, "\r\n")+"\r\n\r\n"))
		return body
	}
	trusting := start(t, serve.Options{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, told)
	plain := start(t, serve.Options{}, told)
	const proto = "X-Forwarded-Proto: https"
	require.Equal(t, `192.0.2.9 "https"`, ask(trusting, proto, "X-Forwarded-For: 203.0.113.4, 192.0.2.9"), "not what the client says")
	require.Equal(t, `192.0.2.9 "https"`, ask(trusting, proto, "X-Forwarded-For: 192.0.2.9, 127.0.0.7"), "by way of two proxies")
	require.Equal(t, `192.0.2.9 "https"`, ask(trusting, proto, "X-Forwarded-For: 203.0.113.4", "X-Forwarded-For: 192.0.2.9"))
	require.Equal(t, `127.0.0.1 "https"`, ask(trusting, proto), "a request of the proxy's own")
	require.Equal(t, `127.0.0.1 "https"`, ask(trusting, proto, "X-Forwarded-For: nonsense"))
	require.Equal(t, `127.0.0.1 ""`, ask(plain, proto, "X-Forwarded-For: 192.0.2.9"))
}

// Behind a proxy it is the client whose requests in progress are counted.
func TestForwarded_limit(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan bool), make(chan bool)
	defer close(leave)
	addr := start(t, serve.Options{
		MaxConnections: 100, MaxPerAddress: 2, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			entered <- true
			<-leave
		}
	})
	of := func(client, path string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: " + client + "\r\n\r\n"
	}
	for range 2 {
		dial(t, addr, of("192.0.2.1", "/wait"))
		<-entered
	}
	status, _ := answer(t, dial(t, addr, of("192.0.2.1", "/")))
	require.Equal(t, http.StatusTooManyRequests, status)
	status, _ = answer(t, dial(t, addr, of("192.0.2.2", "/")))
	require.Equal(t, http.StatusOK, status)
}

// A client that has closed its connection is known to be gone, also where nothing reads from the connection.
func TestGone(t *testing.T) {
	t.Parallel()
	seen, look, closed := make(chan bool), make(chan struct{}), make(chan bool)
	addr := start(t, serve.Options{}, func(_ http.ResponseWriter, r *http.Request) {
		seen <- serve.Gone(r.Context()) // the body has not been read: net/http does not look for the end of the connection
		<-look
		for deadline := time.Now().Add(patience); !serve.Gone(r.Context()) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		closed <- serve.Gone(r.Context()) && r.Context().Err() == nil
	})
	c := dial(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	require.False(t, <-seen)
	require.NoError(t, c.Close())
	look <- struct{}{}
	require.True(t, <-closed)
	require.False(t, serve.Gone(t.Context()), "it is no request's")
}
