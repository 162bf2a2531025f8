package main

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd"
	"github.com/prewarm-dev/prewarm/coderd/programtest"
)

// What the flags and variables say is what the server is started with; flags go before variables.
func TestServerOptions(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	urlFile := writeFile(t, "postgres://u:p@db/x\n")
	for name, test := range map[string]struct {
		env  []string
		args []string
		want coderd.Options
	}{
		"defaults": {nil, nil, coderd.Options{
			Listen: "127.0.0.1:7080", DataDir: filepath.Join(home, ".local/share/prewarm"), Tick: 15 * time.Second,
		}},
		"flags": {
			[]string{"PREWARM_LISTEN=bad", "PREWARM_TICK=1h", "PREWARM_POSTGRES_URL=x"},
			[]string{
				"--listen", "[::1]:0", "--data-dir", "/var/lib/p/", "--postgres-url", "postgres://db/x", "--quickstart",
				"--tick", "1s", "--replica", "eu-1.a", "--trusted-proxies", "10.0.0.7,fd00::/8", "--max-connections", "9",
			},
			coderd.Options{
				Listen: "[::1]:0", DataDir: "/var/lib/p", Command: "PREWARM_DATA_DIR=/var/lib/p prewarm", PostgresURL: "postgres://db/x", Quickstart: true,
				Tick: time.Second, Replica: "eu-1.a", MaxConnections: 9,
				Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("fd00::/8")},
			},
		},
		"variables": {
			[]string{
				"PREWARM_LISTEN=:80", "PREWARM_DATA_DIR=/d", "PREWARM_POSTGRES_URL=host=db user=x", "PREWARM_QUICKSTART=true",
				"PREWARM_TICK=500ms", "PREWARM_REPLICA=r", "PREWARM_LOG_LEVEL=warn",
			},
			nil,
			coderd.Options{
				Listen: ":80", DataDir: "/d", Command: "PREWARM_DATA_DIR=/d prewarm", PostgresURL: "host=db user=x", Quickstart: true, Tick: 500 * time.Millisecond,
				Replica: "r",
			},
		},
		"file of the database": {
			[]string{"XDG_DATA_HOME=/x"},
			[]string{"--postgres-url-file", urlFile},
			coderd.Options{
				Listen: "127.0.0.1:7080", DataDir: "/x/prewarm", PostgresURL: "postgres://u:p@db/x", Tick: 15 * time.Second,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh := newShell(t, "")
			sh.env = append([]string{"HOME=" + home}, test.env...)
			var got coderd.Options
			sh.serve = func(_ context.Context, opts coderd.Options) error { got = opts; return nil }
			if end := sh.run(append([]string{"server"}, test.args...)...); end != (outcome{}) {
				t.Fatal(end)
			}
			if got.Stdout == nil || got.Stderr == nil {
				t.Error("the server has nowhere to write")
			}
			got.Stdout, got.Stderr = nil, nil
			if name == "variables" {
				test.want.LogLevel = slog.LevelWarn
			} else {
				test.want.LogLevel = slog.LevelInfo
			}
			test.want.Version, test.want.MaxWaitingClaims, test.want.MaxColdClaims = version(), 200, 20
			test.want.Streams.UserStreams = 1000
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("started with %+v", got)
			}
		})
	}
}

// A mistake is found before anything is started, and no message repeats a password.
func TestServerRefusesBadOptions(t *testing.T) {
	t.Parallel()
	empty, secret := writeFile(t, "\n"), writeFile(t, "hunter2-hunter2-hunter2")
	for line, want := range map[string]struct {
		status int
		stderr string
	}{
		"--tick 0s":                            {2, "--tick must be more than 0"},
		"--tick -1s":                           {2, "--tick must be more than 0"},
		"--trusted-proxies lb.example":         {2, "write addresses or networks"},
		"--max-connections -1":                 {2, "must not be negative"},
		"--tick often":                         {2, `invalid argument "often" for "--tick"`},
		"--listen 127.0.0.1":                   {2, "write HOST:PORT"},
		"--listen 127.0.0.1:http":              {2, "the port must be a number"},
		"--listen 127.0.0.1:65536":             {2, "the port must be a number"},
		"--replica a/b":                        {2, "a name is letters"},
		"--replica " + strings.Repeat("x", 64): {2, "a name is letters"},
		"--postgres-url mysql://u:hunter2@h/d": {2, "must begin with postgres://"},
		"--postgres-url postgres://h --postgres-url-file " + empty:       {2, "cannot both be given"},
		"--postgres-url-file " + empty:                                   {1, "is empty"},
		"--postgres-url-file /nowhere":                                   {1, "no such file"},
		"--log-format xml":                                               {2, "it is text or json"},
		"--log-level loud":                                               {2, "it is debug, info, warn or error"},
		"--notify-url https://h/hunter2":                                 {2, "--notify-secret-file is missing"},
		"--notify-secret-file " + empty:                                  {2, "goes with --notify-url"},
		"--notify-url https://h/hunter2 --notify-secret-file /nowhere":   {1, "no such file"},
		"--notify-url https://h/hunter2 --notify-secret-file " + empty:   {2, "has 0 bytes: at least 16"},
		"--metrics-token-file /nowhere":                                  {1, "no such file"},
		"--metrics-token-file " + empty:                                  {2, "has 0 bytes: at least 16"},
		"--notify-url hunter2 --notify-secret-file " + secret:            {2, "must look like"},
		"--notify-url https://h/hunter2 --notify-url-file " + secret:     {2, "cannot both be given"},
		"--notify-url-file " + empty + " --notify-secret-file " + secret: {1, "is empty"},
		"extra": {2, `unexpected argument "extra"`},
	} {
		got := newShell(t, "").run(append([]string{"server"}, strings.Fields(line)...)...)
		if got.status != want.status || !strings.Contains(got.stderr, want.stderr) ||
			strings.Contains(got.stderr, "hunter2") {
			t.Errorf("%q: %s", line, got)
		}
	}
}

func TestServerThatFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{
			xerrors.Errorf("listen: %w", os.NewSyscallError("bind", syscall.EADDRINUSE)),
			"prewarm: listen: bind: address already in use (is another server running? listen elsewhere with --listen)\n",
		},
		{
			xerrors.Errorf("connect to database: %w", syscall.ECONNREFUSED),
			"prewarm: connect to database: connection refused\n",
		},
	} {
		sh := newShell(t, "")
		sh.serve = func(context.Context, coderd.Options) error { return test.err }
		if got := sh.run("server"); got.status != 1 || got.stderr != test.want {
			t.Error(got)
		}
	}
}

// The lines that a server prints work as printed: with the name where PATH has this program, else as it was called.
func TestOwnCommand(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "prewarm")
	programtest.Write(t, program, []byte("#!/bin/sh\n"), 0o755)
	other := filepath.Join(t.TempDir(), "prewarm")
	programtest.Write(t, other, []byte("#!/bin/sh\n"), 0o755)
	for _, c := range []struct{ path, called, want string }{
		{"", program, program},
		{dir, program, "prewarm"},
		{dir, "prewarm", "prewarm"},
		{dir, other, other},
		{"", "my bin/prewarm", "'my bin/prewarm'"},
	} {
		t.Setenv("PATH", c.path)
		if got := ownCommand(c.called); got != c.want {
			t.Errorf("called as %s with PATH=%s: %s, not %s", c.called, c.path, got, c.want)
		}
	}
}
