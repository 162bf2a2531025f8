package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"
)

// maxLogSize is the size in bytes at which log becomes log.1.
const maxLogSize = 10 << 20

// rotatingFile is an append-only file that becomes path.1 when it is full.
type rotatingFile struct {
	path string
	max  int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func openRotatingFile(path string, limit int64) (*rotatingFile, error) {
	f := &rotatingFile{path: path, max: limit}
	return f, f.open()
}

func (f *rotatingFile) open() error {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	f.file, f.size = file, info.Size()
	return nil
}

func (f *rotatingFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size > 0 && f.size+int64(len(b)) > f.max {
		if err := f.rotate(); err != nil {
			return 0, xerrors.Errorf("rotate log: %w", err)
		}
	}
	n, err := f.file.Write(b)
	f.size += int64(n)
	return n, err
}

func (f *rotatingFile) rotate() error {
	if err := os.Rename(f.path, f.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = f.file.Close()
	return f.open()
}

func (f *rotatingFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}

// pump carries what a process and its descendants write to the log.
type pump struct {
	w    *os.File
	done chan struct{}
}

func newPump(to io.Writer) (*pump, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &pump{w: w, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer r.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			// A full disk must not block or end the workspace: what cannot be written is lost.
			_, _ = to.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return p, nil
}

// drain waits for the rest of the output of a process that ended. It is short: a descendant may keep the pipe open.
func (p *pump) drain(clock quartz.Clock) {
	t := clock.NewTimer(100*time.Millisecond, "supervisor", "drain")
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
}
