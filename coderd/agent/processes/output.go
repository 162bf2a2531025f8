package processes

import (
	"sort"
	"sync"
)

const (
	// Kept is how many bytes of a process's output are kept.
	Kept = 1 << 20
	// pieceSize is how many bytes are handed out at a time.
	pieceSize = 16 << 10
)

// Streams of a process.
const (
	stdout byte = 1
	stderr byte = 2
)

// output keeps the end of what a process has written, for any number of readers. Offsets count both streams together, in the
// order in which they were written.
//
// While readers are attached the process waits for the slowest, as it does at a pipe: none of them misses a byte that it could
// still have had. Without readers it runs on, and what is older than Kept is lost.
type output struct {
	mu       sync.Mutex
	changed  *sync.Cond
	chunks   []chunk
	start    int64 // offset of the first byte that is kept
	end      int64 // offset after the last
	over     bool  // nothing more will come
	dropped  bool  // nobody is waited for
	readers  map[*reader]struct{}
	stuck    int // writers that wait for readers
	progress int64
}

type chunk struct {
	stream byte
	offset int64
	data   []byte
}

// reader is one attached reader. It has read what is before at.
type reader struct {
	at   int64
	gone bool
}

func newOutput() *output {
	o := &output{readers: map[*reader]struct{}{}}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// writer is one stream of the output.
type writer struct {
	*output
	stream byte
}

// Write takes all of p. It waits for readers that are attached and more than Kept behind.
func (w writer) Write(p []byte) (int, error) {
	for written := 0; written < len(p); {
		piece := p[written:min(len(p), written+pieceSize)]
		w.put(w.stream, piece)
		written += len(piece)
	}
	return len(p), nil
}

func (o *output) put(stream byte, piece []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stuck++
	for o.behind(o.end + int64(len(piece)) - Kept) {
		o.changed.Wait()
	}
	o.stuck--
	o.progress++
	if n := len(o.chunks); n > 0 && o.chunks[n-1].stream == stream && len(o.chunks[n-1].data)+len(piece) <= pieceSize {
		o.chunks[n-1].data = append(o.chunks[n-1].data, piece...)
	} else {
		o.chunks = append(o.chunks, chunk{stream, o.end, append([]byte(nil), piece...)})
	}
	o.end += int64(len(piece))
	for o.end-o.start > Kept {
		first := &o.chunks[0]
		if n := min(int64(len(first.data)), o.end-o.start-Kept); n < int64(len(first.data)) {
			first.data, first.offset, o.start = first.data[n:], first.offset+n, o.start+n
		} else {
			o.start += n
			o.chunks[0].data = nil
			o.chunks = o.chunks[1:]
		}
	}
	o.changed.Broadcast()
}

// behind says whether a reader would lose what is before an offset. The caller locks.
func (o *output) behind(offset int64) bool {
	if o.dropped {
		return false
	}
	for r := range o.readers {
		if r.at < offset && r.at >= o.start {
			return true
		}
	}
	return false
}

// finish says that nothing more will come, and release that readers hold up nobody.
func (o *output) finish() { o.set(func() { o.over = true }) }

func (o *output) release() { o.set(func() { o.dropped = true }) }

func (o *output) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	o.changed.Broadcast()
}

// state says whether something moves: bytes come, or a reader holds them up.
func (o *output) state() (progress int64, stuck bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress, o.stuck > 0
}

func (o *output) bounds() (start, end int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.start, o.end
}

// attach begins to read at an offset; detach ends it, also for one that waits.
func (o *output) attach(offset int64) (r *reader, detach func()) {
	r = &reader{at: max(0, offset)}
	o.set(func() { r.at = min(r.at, o.end); o.readers[r] = struct{}{} })
	return r, func() { o.set(func() { r.gone = true; delete(o.readers, r) }) }
}

// piece is what a reader reads next: bytes of one stream, or how many bytes from its offset on are lost.
type piece struct {
	offset int64
	stream byte
	data   []byte
	cut    int64
}

// next waits for the next piece where follow is true. It is false at the end, and once the reader is detached. What it returns
// counts as read when next is called again.
func (o *output) next(r *reader, follow bool) (piece, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		switch {
		case r.gone:
			return piece{}, false
		case r.at < o.start:
			p := piece{offset: r.at, cut: o.start - r.at}
			r.at = o.start
			return p, true
		case r.at < o.end:
			i := sort.Search(len(o.chunks), func(i int) bool { return o.chunks[i].offset > r.at }) - 1
			c := o.chunks[i]
			data := c.data[r.at-c.offset:]
			return piece{offset: r.at, stream: c.stream, data: append([]byte(nil), data[:min(len(data), pieceSize)]...)}, true
		case o.over || !follow:
			return piece{}, false
		}
		o.changed.Wait()
	}
}

// read says that a reader has so many bytes more.
func (o *output) read(r *reader, n int) { o.set(func() { r.at += int64(n) }) }
