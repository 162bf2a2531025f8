package hosts

import (
	"context"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/xerrors"
)

// idleAfter is how long a connection is kept that nobody uses.
const idleAfter = time.Minute

// connections are the open ones, at most one to a machine and a limited number in all. One that is used by nobody is closed
// to make room for another, or after a while.
type connections struct {
	p *Provider

	mu      sync.Mutex
	open    map[string]*connection // by machine; those being dialled too
	changed chan struct{}          // closed, and made anew, when room was made
}

type connection struct {
	machine string
	ready   chan struct{} // closed when client or err is set
	client  *ssh.Client
	err     error
	slots   chan struct{} // of calls at once

	users  int
	usedAt time.Time
	gone   bool // no longer in the table
}

func newConnections(p *Provider) *connections {
	return &connections{p: p, open: map[string]*connection{}, changed: make(chan struct{})}
}

// get returns a connection to the machine; release gives it back, and with broken it is closed, so that the next call makes
// another. fresh is false for one that was used before, and so may have died unnoticed.
func (cs *connections) get(ctx context.Context, m *Host) (c *connection, fresh bool, err error) {
	for {
		c, fresh, wait := cs.take(m)
		if c == nil {
			select {
			case <-ctx.Done():
				return nil, false, xerrors.Errorf("wait for one of %d connections: %w", cs.p.config.Connections, ctx.Err())
			case <-wait:
				continue
			}
		}
		if fresh {
			// Others may wait for it: who began it going away must not fail them.
			go cs.connect(context.WithoutCancel(ctx), c, m)
		}
		select {
		case <-ctx.Done():
			cs.release(c, false)
			return nil, false, ctx.Err()
		case <-c.ready:
		}
		if c.err != nil {
			cs.release(c, true)
			return nil, false, c.err
		}
		select {
		case <-ctx.Done():
			cs.release(c, false)
			return nil, false, xerrors.Errorf("wait for one of %d calls at once: %w", cs.p.config.Calls, ctx.Err())
		case c.slots <- struct{}{}:
		}
		return c, fresh, nil
	}
}

// take finds or begins a connection; nil: there is no room, until the channel is closed.
func (cs *connections) take(m *Host) (c *connection, fresh bool, wait <-chan struct{}) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c, ok := cs.open[m.Name]; ok {
		c.users++
		return c, false, nil
	}
	if len(cs.open) >= cs.p.config.Connections && !cs.evict() {
		return nil, false, cs.changed
	}
	c = &connection{
		machine: m.Name, ready: make(chan struct{}), slots: make(chan struct{}, cs.p.config.Calls), users: 1,
		usedAt: cs.p.clock.Now("hosts", "connection"),
	}
	cs.open[m.Name] = c
	return c, true, nil
}

// evict closes the connection that has been unused for longest, if there is one.
func (cs *connections) evict() bool {
	var oldest *connection
	for _, c := range cs.open {
		if c.users == 0 && (oldest == nil || c.usedAt.Before(oldest.usedAt)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	cs.forget(oldest)
	return true
}

// forget takes a connection out of the table and closes it. cs.mu is held.
func (cs *connections) forget(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	delete(cs.open, c.machine)
	close(cs.changed)
	cs.changed = make(chan struct{})
	if c.client != nil {
		go func() { _ = c.client.Close() }() // which writes, and may wait for a peer that is frozen
	}
}

// release is the end of one use. What is broken, and what is not used again, is closed.
func (cs *connections) release(c *connection, broken bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.users--
	c.usedAt = cs.p.clock.Now("hosts", "connection")
	if broken {
		cs.forget(c)
	}
	if c.users == 0 && !c.gone { // there is one that may be closed for who waits
		close(cs.changed)
		cs.changed = make(chan struct{})
	}
}

// done gives back the place of one call, and the connection.
func (cs *connections) done(c *connection, broken bool) {
	<-c.slots
	cs.release(c, broken)
}

// connect dials, and then looks after the connection for as long as it is open.
func (cs *connections) connect(ctx context.Context, c *connection, m *Host) {
	client, err := cs.p.dial(ctx, m)
	cs.mu.Lock()
	c.client, c.err = client, err
	gone := c.gone
	cs.mu.Unlock()
	close(c.ready)
	if err != nil {
		return
	}
	if gone {
		_ = client.Close()
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Wait()
	}()
	cs.keepAlive(c, ended)
	cs.mu.Lock()
	cs.forget(c)
	cs.mu.Unlock()
}

// keepAlive asks the peer now and then whether it is there, and ends when it is not, or nobody needs it.
func (cs *connections) keepAlive(c *connection, ended <-chan struct{}) {
	every := time.Duration(cs.p.config.Keepalive)
	ticker := cs.p.clock.NewTicker(every, "hosts", "keepalive")
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		cs.mu.Lock()
		idle := c.users == 0 && cs.p.clock.Since(c.usedAt, "hosts", "connection") >= idleAfter
		cs.mu.Unlock()
		if idle {
			return
		}
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.client.SendRequest("keepalive@prewarm", true, nil)
			answered <- err
		}()
		select {
		case <-ended:
			return
		case err := <-answered:
			if err != nil {
				return
			}
		case <-ticker.C: // a whole turn without an answer
			return
		}
	}
}
