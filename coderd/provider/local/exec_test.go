package local_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const idle = `{"command": ["sleep", "1000"], "environment": {"GREETING": "hello"}}`

func TestExec(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "exec", idle)
	var out, errs bytes.Buffer
	code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
		Command: []string{"sh", "-c", `echo "$GREETING $NAME"; pwd; cat; echo oh >&2; exit 5`},
		Env:     map[string]string{"NAME": "world"},
		Stdin:   strings.NewReader("typed\n"), Stdout: &out, Stderr: &errs,
	})
	require.NoError(t, err)
	assert.Equal(t, 5, code)
	assert.Equal(t, "hello world\n"+home(i)+"\ntyped\n", out.String())
	assert.Equal(t, "oh\n", errs.String())

	code, err = p.Exec(t.Context(), refOf(i), provider.ExecRequest{Command: []string{"sh", "-c", "kill -9 $$"}})
	require.NoError(t, err)
	assert.Equal(t, 128+9, code)
}

// A client keeps its side of stdin open for as long as it likes: the command's end is the end.
func TestExecEndsWithItsCommand(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "exec", idle)
	for range 20 {
		stdin, typist := io.Pipe() // nobody closes it
		var out bytes.Buffer
		began := time.Now()
		code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
			Command: []string{"sh", "-c", "echo done; exit 3"}, Stdin: stdin, Stdout: &out,
		})
		require.NoError(t, err)
		require.Equal(t, 3, code)
		require.Equal(t, "done\n", out.String())
		require.NoError(t, typist.Close())
		if time.Since(began) < outputDelay {
			return
		}
	}
	t.Fatal("each of 20 commands ended no sooner than its output is waited for")
}

// outputDelay is that of the provider, which it waits where something keeps the output open.
const outputDelay = time.Second

func TestExecIsRefused(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	do := func(name string, command ...string) error {
		_, err := p.Exec(t.Context(), provider.Ref{Name: name}, provider.ExecRequest{Command: command})
		return err
	}
	require.ErrorIs(t, do("unknown", "true"), provider.ErrNotFound)
	create(t, p, "stopped", `{"command": ["true"]}`)
	eventually(t, func() bool {
		i, err := p.Get(t.Context(), provider.Ref{Name: "stopped"})
		return assert.NoError(t, err) && i.Status == provider.StatusStopped
	})
	require.ErrorContains(t, do("stopped", "true"), "it is not running")
	create(t, p, "idle", idle)
	require.ErrorContains(t, do("idle"), "no command")
	require.ErrorContains(t, do("idle", "no-such-program"), "not in the workspace's PATH")
}

// A command ends with its context, and all that it started in its group with it.
func TestExecEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "exec", idle)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := p.Exec(ctx, refOf(i), provider.ExecRequest{
			Command: []string{"sh", "-c", "sleep 1000 & echo $! > child; wait"}, Stdout: io.Discard,
		})
		ended <- err
	}()
	child := readPID(t, home(i)+"/child")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	eventually(t, func() bool { return !running(child) })
}

// A command ends with its workspace, and so does what it left in the background.
func TestExecEndsWithItsWorkspace(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "exec", idle)
	code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
		Command: []string{"sh", "-c", "setsid sh -c 'echo $$ > left; exec sleep 1000' >/dev/null 2>&1 &"},
	})
	require.NoError(t, err)
	assert.Zero(t, code)
	left := readPID(t, home(i)+"/left")
	codes := make(chan int)
	go func() {
		code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
			Command: []string{"sh", "-c", "echo $$ > front; exec sleep 1000"},
		})
		assert.NoError(t, err)
		codes <- code
	}()
	readPID(t, home(i)+"/front")
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.Equal(t, 128+15, <-codes)
	assert.False(t, running(left))
	requireEmpty(t, root)
}

func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "tty", idle)
	in, typed := io.Pipe()
	defer typed.Close()
	out, shown := io.Pipe()
	resize := make(chan provider.WindowSize, 1)
	codes := make(chan int)
	go func() {
		code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
			Command: []string{"sh", "-c", `
				test -t 0 || exit 1
				trap 'stty size; exit 6' WINCH
				echo up
				while :; do sleep 0.01; done`},
			TTY: true, Stdin: in, Stdout: shown, Resize: resize,
		})
		assert.NoError(t, err)
		_ = shown.Close()
		codes <- code
	}()
	up := make([]byte, 4)
	_, err := io.ReadFull(out, up)
	require.NoError(t, err)
	assert.Equal(t, "up\r\n", string(up))
	resize <- provider.WindowSize{Rows: 33, Cols: 99}
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	assert.Equal(t, "33 99\r\n", string(rest))
	assert.Equal(t, 6, <-codes)
}

// What a command leaves on its terminal does not keep Exec from returning.
func TestExecOnATerminalLeavesSomething(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "tty", idle)
	var out bytes.Buffer
	code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
		Command: []string{"sh", "-c", `
			(trap '' HUP; echo $$ > left; exec sleep 1000) &
			while [ ! -s left ]; do sleep 0.01; done
			echo bye`},
		TTY: true, Stdout: &out,
	})
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Equal(t, "bye\r\n", out.String())
}

// A command that starts while its workspace is deleted is refused or ended, whichever comes first.
func TestExecDuringDelete(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	for round := range 15 {
		i := create(t, p, fmt.Sprintf("racing-%d", round), `{"command": ["sleep", "1000"]}`)
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				for { // until it is refused; one that came too late for the delete would go on for ever
					code, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{Command: []string{"sleep", "1000"}})
					if err != nil {
						return
					}
					assert.NotZero(t, code)
				}
			})
		}
		require.NoError(t, p.Delete(t.Context(), refOf(i)))
		all.Wait()
	}
	requireEmpty(t, root)
}
