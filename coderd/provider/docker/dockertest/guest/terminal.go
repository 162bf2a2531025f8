package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// sizes writes the size of the terminal now and at each change, until standard input says something.
func sizes() error {
	changed := make(chan os.Signal, 8)
	signal.Notify(changed, syscall.SIGWINCH)
	said := make(chan struct{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		close(said)
	}()
	for {
		size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return err
		}
		fmt.Printf("%dx%d\n", size.Row, size.Col)
		select {
		case <-changed:
		case <-said:
			return nil
		}
	}
}
