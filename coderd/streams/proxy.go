package streams

import (
	"sync"
	"time"
)

// FlushAfter is how long a proxy may hold back what it has of an answer whose length is known. One without a length is handed on as
// it comes.
const FlushAfter = 10 * time.Millisecond

// Buffers are what proxies copy answers with. It is safe for concurrent use.
var Buffers = &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}

const bufferSize = 32 << 10

type buffers struct{ pool sync.Pool }

// Get is for httputil.ReverseProxy.
func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put gives back what Get gave.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
