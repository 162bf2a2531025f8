package api_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	gossh "golang.org/x/crypto/ssh"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// errWrong is what no broken network explains.
var errWrong = errors.New("wrong")

func same(what string, got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: %s has %d bytes instead of %d", errWrong, what, len(got), len(want))
	}
	return nil
}

// much is more than a window of a stream holds.
var much = bytes.Repeat([]byte("what goes through a tunnel\n"), 12_000)

// request sends one that the client of the sdk has no method for.
func (g *guest) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, g.URL.String()+"/api/v1/workspaces/"+g.name+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.HTTPClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, content)
	}
	return content, err
}

// started is a process whose start leaves a line in a file of its own, to see how often it was started.
func (g *guest) started(shell string, more sdk.ProcessStart) (start sdk.ProcessStart, once func() error) {
	id := uuid.New()
	more.ID, more.Shell = &id, "echo x >>started-"+id.String()+"; "+shell
	return more, func() error {
		lines, err := os.ReadFile(filepath.Join(g.dir, "started-"+id.String()))
		if err != nil || string(lines) != "x\n" {
			return fmt.Errorf("%w: the process was started %d times: %w", errWrong, len(lines)/2, err)
		}
		return nil
	}
}

// begun starts a process while the network is well.
func (g *guest) begun(ctx context.Context, shell string, more sdk.ProcessStart) uuid.UUID {
	start, _ := g.started(shell, more)
	p, err := g.StartProcess(ctx, g.name, start)
	require.NoError(g.t, err)
	return p.ID
}

// kinds are requests of every kind: what each prepares while the network is well, and what it does when it breaks. That is done
// again where it failed.
var kinds = map[string]func(g *guest, ctx context.Context) (do func(context.Context) error){
	"run": func(g *guest, _ context.Context) func(context.Context) error {
		start, once := g.started("printf 'some output\\n'", sdk.ProcessStart{})
		return func(ctx context.Context) error {
			body, _ := json.Marshal(start)
			answer, err := g.request(ctx, http.MethodPost, "/run", body)
			if err != nil {
				return err
			}
			var output []byte
			for lines := json.NewDecoder(bytes.NewReader(answer)); ; {
				var line sdk.ProcessOutput
				if err := lines.Decode(&line); err != nil {
					return fmt.Errorf("output without an end: %w", err)
				}
				if output = append(output, line.Bytes()...); line.ExitCode != nil {
					return errors.Join(same("output", output, []byte("some output\n")), once())
				}
			}
		}
	},
	"start": func(g *guest, _ context.Context) func(context.Context) error {
		start, once := g.started("", sdk.ProcessStart{})
		return func(ctx context.Context) error {
			p, err := g.StartProcess(ctx, g.name, start)
			if err != nil {
				return err
			}
			if _, err = g.AwaitProcess(ctx, g.name, p.ID); err != nil {
				return err
			}
			return once()
		}
	},
	"output": func(g *guest, ctx context.Context) func(context.Context) error {
		id := g.begun(ctx, "cat much", sdk.ProcessStart{})
		var got []byte
		return func(ctx context.Context) error {
			_, err := g.FollowProcess(ctx, g.name, id, int64(len(got)), func(o sdk.ProcessOutput) error {
				if o.Offset != int64(len(got)) || o.Cut > 0 {
					return fmt.Errorf("%w: offset %d after %d", errWrong, o.Offset, len(got))
				}
				got = append(got, o.Bytes()...)
				return nil
			})
			if err != nil {
				return err
			}
			return same("output", got, much)
		}
	},
	"attach": func(g *guest, ctx context.Context) func(context.Context) error {
		id := g.begun(ctx, "cat much", sdk.ProcessStart{})
		var got []byte
		return func(ctx context.Context) error {
			u := fmt.Sprintf("%s/api/v1/workspaces/%s/processes/%s/attach?offset=%d", g.URL, g.name, id, len(got))
			ws, _, err := websocket.Dial(ctx, u, &websocket.DialOptions{
				HTTPClient: g.HTTPClient, HTTPHeader: http.Header{"Authorization": {"Bearer " + g.Token}},
			})
			if err != nil {
				return err
			}
			defer func() { _ = ws.CloseNow() }()
			if err := ws.Write(ctx, websocket.MessageText, []byte(`{"command":["attach"]}`)); err != nil {
				return err
			}
			for {
				kind, message, err := ws.Read(ctx)
				if err != nil {
					return fmt.Errorf("%w: closed without a last word: %w", errWrong, err)
				}
				if kind == websocket.MessageBinary {
					got = append(got, message[1:]...)
					continue
				}
				var end struct {
					ExitCode *int `json:"exit_code"`
					Error    string
				}
				if err := json.Unmarshal(message, &end); err != nil {
					return fmt.Errorf("%w: %w", errWrong, err)
				}
				if end.ExitCode == nil {
					_, _, err := ws.Read(ctx)
					return fmt.Errorf("%s: %w", end.Error, err)
				}
				return same("output", got, much)
			}
		}
	},
	"stdin": func(g *guest, ctx context.Context) func(context.Context) error {
		id, used := g.begun(ctx, "cat", sdk.ProcessStart{Stdin: true}), false
		return func(ctx context.Context) error {
			if used { // what was written may have been read
				_ = g.SignalProcess(ctx, g.name, id, "KILL")
				id = g.begun(ctx, "cat", sdk.ProcessStart{Stdin: true})
			}
			used = true
			if err := g.WriteProcess(ctx, g.name, id, strings.NewReader("some input"), true); err != nil {
				return err
			}
			var got []byte
			_, err := g.FollowProcess(ctx, g.name, id, 0, func(o sdk.ProcessOutput) error { got = append(got, o.Bytes()...); return nil })
			if err != nil {
				return err
			}
			return same("output", got, []byte("some input"))
		}
	},
	"signal": func(g *guest, ctx context.Context) func(context.Context) error {
		id := g.begun(ctx, "exec sleep 1000", sdk.ProcessStart{})
		return func(ctx context.Context) error {
			err := g.SignalProcess(ctx, g.name, id, "KILL")
			if err != nil && sdk.StatusOf(err) != http.StatusConflict { // it has ended, by the signal whose answer was lost
				return err
			}
			p, err := g.AwaitProcess(ctx, g.name, id)
			if err == nil && (p.ExitCode == nil || *p.ExitCode != 137) {
				return fmt.Errorf("%w: exit code %v", errWrong, p.ExitCode)
			}
			return err
		}
	},
	"exec": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			var out bytes.Buffer
			code, err := g.Exec(ctx, g.name, sdk.ExecRequest{
				ExecStart: sdk.ExecStart{Command: []string{"sh", "-c", "cat; exit 7"}}, Stdin: strings.NewReader("some input"), Stdout: &out,
			})
			if err == nil && code != 7 {
				return fmt.Errorf("%w: exit code %d", errWrong, code)
			}
			if err != nil {
				return err
			}
			return same("output", out.Bytes(), []byte("some input"))
		}
	},
	"write file": func(g *guest, _ context.Context) func(context.Context) error {
		name := "written-" + g.fresh()
		return func(ctx context.Context) error {
			_, err := g.WriteFile(ctx, g.name, name, bytes.NewReader(much), sdk.FileWrite{Size: int64(len(much))})
			content, missing := os.ReadFile(filepath.Join(g.dir, name))
			if err != nil && missing != nil {
				return err
			}
			return errors.Join(err, same(name, content, much)) // all of it, or nothing
		}
	},
	"read file": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			content, _, err := g.ReadFile(ctx, g.name, "much")
			if err != nil {
				return err
			}
			defer content.Close()
			got, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			return same("file", got, much)
		}
	},
	"list files": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			list, err := g.Files(ctx, g.name, "tree", "", 0)
			if err == nil && len(list.Files) != 3 {
				return fmt.Errorf("%w: %d files", errWrong, len(list.Files))
			}
			return err
		}
	},
	"read tree": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			archive, err := g.ReadTree(ctx, g.name, "tree")
			if err != nil {
				return err
			}
			defer archive.Close()
			n := 0
			for entries := tar.NewReader(archive); ; {
				h, err := entries.Next()
				if errors.Is(err, io.EOF) {
					_, err = io.Copy(io.Discard, archive)
					if err == nil && n != 3 {
						return fmt.Errorf("%w: %d files", errWrong, n)
					}
					return err
				}
				if err != nil {
					return err
				}
				if h.Typeflag != tar.TypeReg {
					continue
				}
				got, err := io.ReadAll(entries)
				if err != nil {
					return err
				}
				if err := same(h.Name, got, much[:1000]); err != nil {
					return err
				}
				n++
			}
		}
	},
	"write tree": func(g *guest, _ context.Context) func(context.Context) error {
		dir := "unpacked-" + g.fresh()
		return func(ctx context.Context) error {
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			for i := range 3 {
				_ = w.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Mode: 0o644, Size: int64(len(much))})
				_, _ = w.Write(much)
			}
			_ = w.Close()
			if err := g.WriteTree(ctx, g.name, dir, &archive, true); err != nil {
				return err
			}
			for i := range 3 {
				content, err := os.ReadFile(filepath.Join(g.dir, dir, fmt.Sprint(i)))
				if err != nil {
					return fmt.Errorf("%w: %w", errWrong, err)
				}
				if err := same("file", content, much); err != nil {
					return err
				}
			}
			return nil
		}
	},
	"port over HTTP": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			got, err := g.request(ctx, http.MethodPost, fmt.Sprintf("/ports/%d/http/", g.web), much)
			if err != nil {
				return err
			}
			return same("answer", got, much)
		}
	},
	"port": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			stream, err := g.DialPort(ctx, g.name, g.raw)
			if err != nil {
				return err
			}
			defer stream.Cut()
			defer context.AfterFunc(ctx, stream.Cut)()
			go func() { _, _ = stream.Write(much); _ = stream.CloseWrite() }()
			got, err := io.ReadAll(stream)
			if err != nil {
				return err
			}
			return same("answer", got, much)
		}
	},
	"ssh": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			stream, err := g.DialSSH(ctx, g.name)
			if err != nil {
				return err
			}
			defer stream.Cut()
			defer context.AfterFunc(ctx, stream.Cut)()
			conn, channels, requests, err := gossh.NewClientConn(stream, "workspace", &gossh.ClientConfig{
				User: sdk.SSHUser, HostKeyCallback: gossh.InsecureIgnoreHostKey(), // it is compared elsewhere
			})
			if err != nil {
				return err
			}
			client := gossh.NewClient(conn, channels, requests)
			defer client.Close()
			session, err := client.NewSession()
			if err != nil {
				return err
			}
			got, err := session.Output("printf output")
			if err != nil {
				return err
			}
			return same("output", got, []byte("output"))
		}
	},
}
