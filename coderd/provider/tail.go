package provider

import (
	"bytes"
	"sync"
)

// Tail keeps the end of what is written to it, by several at once too.
type Tail struct {
	Limit int // bytes

	mu  sync.Mutex
	buf []byte
	cut bool
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.Limit {
		t.buf, t.cut = bytes.Clone(t.buf[len(t.buf)-t.Limit:]), true
	}
	return len(p), nil
}

// String is the end, from the beginning of a line.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.buf
	if len(kept) > t.Limit {
		kept, t.cut = kept[len(kept)-t.Limit:], true
	}
	if i := bytes.IndexByte(kept, '\n'); t.cut && i >= 0 {
		kept = kept[i+1:] // half a line may be half a secret
	}
	return string(bytes.ToValidUTF8(kept, []byte("?")))
}
