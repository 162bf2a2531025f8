package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
)

// The test binary is also its own supervisor, and what tests start as another server or inside a workspace.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "helper-process" {
		helper(os.Args[2])
	}
	os.Exit(m.Run())
}

func helper(what string) {
	switch what {
	case "without-namespaces": // the tests again, where no process may have a user namespace: in a changed root directory
		if err := withoutNamespaces(os.Args[3], os.Args[4:]); err != nil {
			fail(err)
		}
	case "without-namespaces-as-root": // a program, as a root that may make no namespaces
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_ADMIN, 0, 0, 0)
		if err == nil {
			err = syscall.Exec(os.Args[3], os.Args[3:], os.Environ())
		}
		fail(err)
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
	case "exec": // a server: runs a command in a workspace
		p, err := local.New(local.Options{Root: os.Args[3]})
		if err == nil {
			_, err = p.Exec(context.Background(), provider.Ref{Name: os.Args[4]}, provider.ExecRequest{Command: os.Args[5:]})
		}
		if err != nil {
			fail(err)
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

func withoutNamespaces(root string, args []string) error {
	for _, do := range []func() error{
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "") },
		func() error { return unix.Mount("/", root, "", unix.MS_BIND|unix.MS_REC, "") },
		func() error { return unix.Chroot(root) },
		func() error { return os.Chdir("/") },
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setgid(nobody) },
		func() error { return syscall.Setuid(nobody) },
		func() error { return syscall.Exec(args[0], args, os.Environ()) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// nobody is a user that may do nothing, and its group.
const nobody = 65534

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
