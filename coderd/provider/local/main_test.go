package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
)

// The test binary is also its own supervisor, and what tests start as another server or inside a workspace.
func TestMain(m *testing.M) {
	local.MaybeRunSupervisor()
	if len(os.Args) > 2 && os.Args[1] == "helper-process" {
		helper(os.Args[2])
	}
	os.Exit(m.Run())
}

func helper(what string) {
	switch what {
	case "listen": // inside a workspace: listens on PORT until it is ended
		l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
		if err != nil {
			fail(err)
		}
		for {
			if c, err := l.Accept(); err == nil {
				_ = c.Close()
			}
		}
	case "create": // a server: creates what it is told to on its input, and stays until it is killed
		p, err := local.New(local.Options{Root: os.Args[3]})
		if err != nil {
			fail(err)
		}
		fmt.Println("up")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var req provider.CreateRequest
			if err := json.Unmarshal(in.Bytes(), &req); err != nil {
				fail(err)
			}
			i, err := p.Create(context.Background(), req)
			if err != nil {
				fail(err)
			}
			fmt.Println(i.ProviderID)
		}
	}
	os.Exit(0)
}

func fail(err error) {
	fmt.Println("failed:", err)
	os.Exit(1)
}

// server is another process that uses the root.
type server struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *bufio.Scanner
}

func startServer(t *testing.T, root string) *server {
	t.Helper()
	cmd := exec.Command(os.Args[0], "helper-process", "create", root)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	s := &server{cmd: cmd, in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	t.Cleanup(func() { s.kill() })
	require.Equal(t, "up", s.line())
	return s
}

func (s *server) line() string {
	s.out.Scan()
	return s.out.Text()
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
