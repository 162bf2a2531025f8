package pubsub

import (
	"context"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

const (
	firstDelay = 100 * time.Millisecond // before a reconnect; doubled up to lastDelay, and jittered
	lastDelay  = 10 * time.Second
	quietTime  = 5 * time.Second // without a notification, after which the peer is pinged
	pingLimit  = 5 * time.Second // for the peer to answer; also to a LISTEN
)

// run keeps a connection listening.
func (p *PubSub) run() {
	delay := firstDelay
	for p.ctx.Err() == nil {
		began, err := p.session()
		if p.ctx.Err() != nil {
			return
		}
		p.logger.Warn(p.ctx, "lost the connection for notifications", slog.Error(err))
		if began {
			delay = firstDelay
		}
		if wait.For(p.ctx, p.clock, delay/2+rand.N(delay/2), "pubsub", "reconnect") != nil {
			return
		}
		delay = min(2*delay, lastDelay)
	}
}

// session listens on one connection until it breaks. began says whether it ever worked.
func (p *PubSub) session() (began bool, err error) {
	config := p.store.Pool.Config().ConnConfig
	config.RuntimeParams["application_name"] += " listen"
	conn, err := pgx.ConnectConfig(p.ctx, config)
	if err != nil {
		return false, xerrors.Errorf("connect: %w", err)
	}
	defer p.hangUp(conn)
	for {
		if err := p.listen(conn); err != nil {
			return began, err
		}
		began = true
		if err := p.receive(conn); err != nil {
			return began, err
		}
	}
}

// hangUp says no goodbye that a dead peer could delay, but lets the connection's goroutines end.
func (p *PubSub) hangUp(conn *pgx.Conn) {
	p.mu.Lock()
	clear(p.listening)
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ctx)
}

// listen makes the connection listen on what is subscribed to, no more and no less.
func (p *PubSub) listen(conn *pgx.Conn) error {
	begin, end := p.difference()
	for _, channel := range end {
		if err := p.execute(conn, "UNLISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return xerrors.Errorf("end listening on %s: %w", channel, err)
		}
	}
	for _, channel := range begin {
		if err := p.execute(conn, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return xerrors.Errorf("begin listening on %s: %w", channel, err)
		}
		p.begun(channel)
	}
	return nil
}

func (p *PubSub) difference() (begin, end []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for channel := range p.subscribers {
		if !p.listening[channel] {
			begin = append(begin, channel)
		}
	}
	for channel := range p.listening {
		if _, wanted := p.subscribers[channel]; !wanted {
			end = append(end, channel)
			delete(p.listening, channel) // from now on a new subscriber waits for a new LISTEN
		}
	}
	return begin, end
}

// begun tells the subscribers that what changes from now on will be hinted at, and what changed before was not.
func (p *PubSub) begun(channel string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listening[channel] = true
	for s := range p.subscribers[channel] {
		s.resync()
	}
}

// receive passes one notification on, or returns because the channels changed or the quiet peer answered a ping.
func (p *PubSub) receive(conn *pgx.Conn) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	quiet := p.clock.NewTimer(quietTime, "pubsub", "quiet")
	defer quiet.Stop()
	ping := false
	interrupted := make(chan struct{})
	go func() {
		defer close(interrupted)
		select {
		case <-p.changed:
		case <-quiet.C:
			ping = true
		case <-ctx.Done():
		}
		cancel()
	}()

	notification, err := conn.WaitForNotification(ctx)
	interrupt := ctx.Err() != nil
	cancel()
	<-interrupted
	switch {
	case err == nil:
		p.dispatch(notification.Channel, notification.Payload)
		return nil
	case !interrupt || p.ctx.Err() != nil || conn.IsClosed():
		return xerrors.Errorf("wait for notification: %w", err)
	case ping:
		if err := p.execute(conn, ""); err != nil {
			return xerrors.Errorf("ping: %w", err)
		}
	}
	return nil
}

// execute runs a statement that a living peer answers at once.
func (p *PubSub) execute(conn *pgx.Conn, statement string) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	limit := p.clock.AfterFunc(pingLimit, cancel, "pubsub", "limit")
	defer limit.Stop()
	_, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	return err
}
