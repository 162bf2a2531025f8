package auth

import (
	"crypto/sha256"
	"time"
)

// cache holds answers of at most cacheAge, and at most max of them. The caller locks.
type cache struct {
	max     int
	answers map[[sha256.Size]byte]answer
}

type answer struct {
	principal Principal
	at        time.Time
}

func newCache(limit int) cache { return cache{max: limit, answers: map[[sha256.Size]byte]answer{}} }

func (c *cache) get(hash [sha256.Size]byte, now time.Time) (Principal, bool) {
	a, ok := c.answers[hash]
	if !ok || now.Sub(a.at) >= cacheAge {
		return Principal{}, false
	}
	return a.principal, true
}

func (c *cache) put(hash [sha256.Size]byte, p Principal, now time.Time) {
	if _, ok := c.answers[hash]; !ok && len(c.answers) >= c.max {
		c.makeRoom(now)
	}
	c.answers[hash] = answer{principal: p, at: now}
}

func (c *cache) remove(hash [sha256.Size]byte) { delete(c.answers, hash) }

// makeRoom drops what is too old, or everything where all is fresh: a cache that lives half a second is soon full
// again.
func (c *cache) makeRoom(now time.Time) {
	for hash, a := range c.answers {
		if now.Sub(a.at) >= cacheAge {
			delete(c.answers, hash)
		}
	}
	if len(c.answers) >= c.max {
		clear(c.answers)
	}
}
