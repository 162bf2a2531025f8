package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Logs returns what setup and command wrote, as far as it is kept.
func (p *Provider) Logs(ctx context.Context, ref provider.Ref, follow bool) (io.ReadCloser, error) {
	d, w, _, err := p.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	files, err := openLogs(d)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &logReader{ctx: ctx, cancel: cancel, p: p, d: d, w: w, files: files, follow: follow}, nil
}

// openLogs opens log.1 and log, as far as they are there, such that nothing is missing in between.
func openLogs(d dir) ([]*os.File, error) {
	for {
		current, err := openIfThere(d.logFile())
		if err != nil {
			return nil, err
		}
		older, err := openIfThere(d.logFile() + ".1")
		if err != nil {
			closeAll(current)
			return nil, err
		}
		if current != nil && older != nil {
			a, errA := current.Stat()
			b, errB := older.Stat()
			if errA != nil || errB != nil || os.SameFile(a, b) { // it was rotated between the two
				closeAll(current, older)
				continue
			}
		}
		return lists.Only([]*os.File{older, current}, func(f *os.File) bool { return f != nil }), nil
	}
}

func openIfThere(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// logReader reads the files one after the other; when it follows, it waits at the end of the last for more, or for the
// file that comes after it, until the workspace is gone.
type logReader struct {
	ctx    context.Context //nolint:containedctx // it bounds Read, which takes none
	cancel context.CancelFunc
	p      *Provider
	d      dir
	w      workspace
	follow bool

	mu    sync.Mutex
	files []*os.File
}

func (r *logReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := newPause(r.p.clock, 200*time.Millisecond)
	for {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		// The order matters: what was written before this look is read below, so an end seen here is the end.
		over := !r.follow || !r.there()
		if n, err := r.read(b); n > 0 || err != nil {
			return n, err
		}
		if over {
			return 0, io.EOF
		}
		if err := pause.wait(r.ctx); err != nil {
			return 0, err
		}
	}
}

// read returns what there is now, which may be nothing.
func (r *logReader) read(b []byte) (int, error) {
	if len(r.files) == 0 {
		files, err := openLogs(r.d)
		if err != nil {
			return 0, err
		}
		r.files = files
	}
	for len(r.files) > 0 {
		n, err := r.files[0].Read(b)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if len(r.files) > 1 { // nobody writes to this one any more
			closeAll(r.files[0])
			r.files = r.files[1:]
			continue
		}
		if same, err := isFile(r.files[0], r.d.logFile()); same || err != nil {
			return 0, err
		}
		newer, err := openIfThere(r.d.logFile())
		if newer == nil || err != nil {
			return 0, err
		}
		r.files = append(r.files, newer) // and once more to the first, for what was written before it was rotated
	}
	return 0, nil
}

// there says whether the workspace still exists.
func (r *logReader) there() bool {
	w, err := load(r.d)
	return err == nil && w.Tags == r.w.Tags
}

func (r *logReader) Close() error {
	r.cancel() // so that a Read lets go of the lock
	r.mu.Lock()
	defer r.mu.Unlock()
	closeAll(r.files...)
	r.files = nil
	return nil
}

// lastLines returns the last n lines of the log, at most 2 kB of them.
func lastLines(d dir, n int) string {
	const most = 2 << 10
	f, err := openIfThere(d.logFile())
	if f == nil || err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	content, _ := io.ReadAll(f)
	lines := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	return string(bytes.ToValidUTF8(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")), []byte("?")))
}
