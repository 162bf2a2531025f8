package sdk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

// ProcessStart says what to run in a workspace.
type ProcessStart struct {
	ID      *uuid.UUID        `json:"id,omitempty" doc:"Chosen by the client: starting it again is the same process. Random where left out"`
	Command []string          `json:"command,omitempty" maxItems:"1024" doc:"Program and arguments; or leave it out and write shell"`
	Shell   string            `json:"shell,omitempty" doc:"A text for sh -c, instead of command"`
	Env     map[string]string `json:"env,omitempty" doc:"Over the environment of the workspace"`
	Dir     string            `json:"dir,omitempty" doc:"Where it runs; relative to the directory of the workspace"`
	User    string            `json:"user,omitempty" doc:"As whom it runs, where the agent is root"`
	Timeout string            `json:"timeout,omitempty" doc:"After which it is ended, such as 10m; unlimited where left out"`
	Stdin   bool              `json:"stdin,omitempty" doc:"Whether it gets an input, to be written and ended by requests; an empty one otherwise"`
	TTY     bool              `json:"tty,omitempty" doc:"Whether it gets a terminal: all its output is stdout then, and it has an input"`
	Rows    uint16            `json:"rows,omitempty" doc:"Of the terminal"`
	Cols    uint16            `json:"cols,omitempty" doc:"Of the terminal"`
}

// Process is one that was started in a workspace, and runs on whether its client is there or not.
type Process struct {
	ID        uuid.UUID  `json:"id"`
	Command   []string   `json:"command"`
	Dir       string     `json:"dir"`
	TTY       bool       `json:"tty,omitempty"`
	PID       int        `json:"pid"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	ExitCode  *int       `json:"exit_code,omitempty" doc:"When it has ended; 128 + n after signal n"`
	TimedOut  bool       `json:"timed_out,omitempty" doc:"It was ended by its timeout"`
	Kept      int64      `json:"kept" doc:"Offset of the first byte of output that is kept"`
	Output    int64      `json:"output" doc:"Offset after the last byte of output"`
}

// ProcessOutput is one line of the output of a process: some bytes, a gap, or the end.
type ProcessOutput struct {
	Process  *uuid.UUID `json:"process,omitempty" doc:"In the first line of a run: its id"`
	Offset   int64      `json:"offset" doc:"Of the first byte of this line, counted over both streams"`
	Stream   string     `json:"stream,omitempty" enum:"stdout,stderr"`
	Text     string     `json:"text,omitempty" doc:"The bytes, where they are UTF-8"`
	Data     []byte     `json:"data,omitempty" doc:"The bytes in base64, where they are not"`
	Cut      int64      `json:"cut,omitempty" doc:"So many bytes from the offset on are not kept any more"`
	ExitCode *int       `json:"exit_code,omitempty" doc:"In the last line, when the process has ended"`
}

// Bytes are what the process has written.
func (o ProcessOutput) Bytes() []byte {
	if o.Data != nil {
		return o.Data
	}
	return []byte(o.Text)
}

// ProcessSignal is sent to a process and its children.
type ProcessSignal struct {
	Signal string `json:"signal" doc:"Such as TERM, INT, HUP, USR1 or KILL"`
}

// Processes lists those of a workspace, the oldest first.
func (c *Client) Processes(ctx context.Context, ref string) ([]Process, error) {
	return get[[]Process](ctx, c, "workspaces", ref, "processes")
}

// Process returns one process.
func (c *Client) Process(ctx context.Context, ref string, id uuid.UUID) (Process, error) {
	return get[Process](ctx, c, "workspaces", ref, "processes", id.String())
}

// StartProcess starts one. It is tried again if it failed, as the id makes it the same process.
func (c *Client) StartProcess(ctx context.Context, ref string, start ProcessStart) (Process, error) {
	if start.ID == nil {
		id := uuid.New()
		start.ID = &id
	}
	return ask[Process](ctx, c, post("workspaces", ref, "processes").with(start).repeatable())
}

// AwaitProcess returns when the process has ended, or after half a minute.
func (c *Client) AwaitProcess(ctx context.Context, ref string, id uuid.UUID) (Process, error) {
	return get[Process](ctx, c, "workspaces", ref, "processes", id.String(), "wait")
}

// SignalProcess sends a signal to a process and its children.
func (c *Client) SignalProcess(ctx context.Context, ref string, id uuid.UUID, signal string) error {
	return c.do(ctx, post("workspaces", ref, "processes", id.String(), "signal").with(ProcessSignal{signal}))
}

// ResizeProcess sets the size of the terminal of a process.
func (c *Client) ResizeProcess(ctx context.Context, ref string, id uuid.UUID, size WindowSize) error {
	return c.do(ctx, post("workspaces", ref, "processes", id.String(), "resize").with(size))
}

// WriteProcess writes to the input of a process, and ends the input where eof is true.
func (c *Client) WriteProcess(ctx context.Context, ref string, id uuid.UUID, input io.Reader, eof bool) error {
	return c.do(ctx, post("workspaces", ref, "processes", id.String(), "stdin").where(query{"eof": eof}).streaming(input, -1))
}

// FollowProcess hands each line of the output to each, from an offset to the end, and returns the exit code. A connection
// that is cut is made again, at the offset of what came last. An error of each ends it.
func (c *Client) FollowProcess(
	ctx context.Context, ref string, id uuid.UUID, offset int64, each func(ProcessOutput) error,
) (exitCode int, err error) {
	for lost := 0; ; {
		before := offset
		code, ended, err := c.followOnce(ctx, ref, id, &offset, each)
		if ended || ctx.Err() != nil {
			return code, err
		}
		if offset > before {
			lost = 0
		}
		if lost++; lost > followTries {
			return 0, xerrors.Errorf("follow process: %w", err)
		}
		if err := wait.For(ctx, c.clock(), retryFirst, "sdk", "follow"); err != nil {
			return 0, err
		}
	}
}

// followTries is how often in a row a connection may bring nothing.
const followTries = 50

// errCut: the output ended without the end of the process.
var errCut = errors.New("the connection was cut")

// followOnce is ended where it is not worth another try.
func (c *Client) followOnce(
	ctx context.Context, ref string, id uuid.UUID, offset *int64, each func(ProcessOutput) error,
) (exitCode int, ended bool, err error) {
	request := read("workspaces", ref, "processes", id.String(), "output").where(query{"offset": *offset, "follow": true})
	resp, err := c.send(ctx, request)
	if err != nil {
		status := StatusOf(err)
		return 0, status != 0 && status < 500, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return 0, false, xerrors.Errorf("%w: %w", errCut, err)
		}
		var output ProcessOutput
		if err := json.Unmarshal(line, &output); err != nil {
			return 0, true, xerrors.Errorf("decode output: %w", err)
		}
		*offset = output.Offset + int64(len(output.Bytes())) + output.Cut
		if err := each(output); err != nil {
			return 0, true, err
		}
		if output.ExitCode != nil {
			return *output.ExitCode, true, nil
		}
	}
}

// parseTimeout is for both sides: empty is none.
func parseTimeout(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, xerrors.Errorf("timeout %s: write a duration such as 30s or 10m", strconv.Quote(text))
	}
	return d, nil
}

// Check says what is wrong with a start, and returns its timeout; 0 is none.
func (s ProcessStart) Check() (timeout time.Duration, err error) {
	switch {
	case len(s.Command) == 0 && s.Shell == "":
		return 0, errors.New("write command, a program and its arguments, or shell, a text for sh -c")
	case len(s.Command) > 0 && s.Shell != "":
		return 0, errors.New("write command or shell, and not both")
	case len(s.Command) > 0 && s.Command[0] == "":
		return 0, errors.New("the program of command is empty")
	}
	return parseTimeout(s.Timeout)
}
