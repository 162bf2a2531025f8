// Command guest is the only program of the image of the tests: what a shell and its tools would be used for elsewhere.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"serve"}
	}
	if err := run(args[0], args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what string, args []string) error {
	switch what {
	case "serve": // says that it is up, and waits for its end
		fmt.Println("guest is up")
		wait()
		fmt.Println("guest goes")
	case "listen": // takes connections at a port, until its end
		l, err := net.Listen("tcp", ":"+args[0])
		if err != nil {
			return err
		}
		go echo(l)
		wait()
	case "say": // a line each to stdout and, of what follows --, to stderr
		for _, word := range args {
			if e, ok := strings.CutPrefix(word, "err:"); ok {
				fmt.Fprintln(os.Stderr, e)
				continue
			}
			fmt.Println(word)
		}
	case "cat": // files, or standard input
		if len(args) == 0 {
			_, err := io.Copy(os.Stdout, os.Stdin)
			return err
		}
		for _, path := range args {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, _ = os.Stdout.Write(content)
		}
	case "write": // a file, with variables in its content
		return os.WriteFile(args[0], []byte(os.ExpandEnv(strings.Join(args[1:], " "))+"\n"), 0o600)
	case "link": // a symbolic link to a path, in the place of a directory
		if err := os.RemoveAll(args[1]); err != nil {
			return err
		}
		return os.Symlink(args[0], args[1])
	case "stat": // mode and owner of files
		for _, path := range args {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			owner, _ := info.Sys().(*syscall.Stat_t)
			fmt.Printf("%s %d:%d\n", info.Mode(), owner.Uid, owner.Gid)
		}
	case "env":
		for _, kv := range os.Environ() {
			fmt.Println(kv)
		}
	case "id":
		dir, _ := os.Getwd()
		fmt.Printf("%d:%d %s\n", os.Getuid(), os.Getgid(), dir)
	case "exit":
		status, _ := strconv.Atoi(args[0])
		os.Exit(status)
	case "size": // of the terminal, whenever it changes
		return sizes()
	case "hang": // with a child that hangs too, deaf to SIGTERM and SIGHUP
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		if len(args) == 0 {
			child := exec.Command("/bin/guest", "hang", "child")
			if err := child.Start(); err != nil {
				return err
			}
		}
		fmt.Println("hanging")
		for { // an empty select would be seen as a deadlock
			time.Sleep(time.Hour)
		}
	case "ps": // the arguments of all processes
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if content, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && e.Name() != "self" {
				fmt.Println(e.Name(), strings.ReplaceAll(string(content), "\x00", " "))
			}
		}
	case "loop": // a line every so often, until its end
		for n := 0; ; n++ {
			fmt.Println("line", n)
			time.Sleep(50 * time.Millisecond)
		}
	default:
		return fmt.Errorf("guest knows no %q", what)
	}
	return nil
}

func wait() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
}

func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
	}
}
