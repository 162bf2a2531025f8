package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// claimCheck is how often an idle port-forward looks whether its claim has ended.
const claimCheck = 5 * time.Second

func (a *app) portForwardCommand() *cobra.Command {
	var address string
	cmd := newCommand("port-forward WORKSPACE [LOCAL:]REMOTE...", "Forward ports of this machine to a workspace",
		`Listens on TCP ports of this machine, and connects what comes there to ports in a workspace that you claimed. LOCAL is the
port here, and the same as REMOTE where it is left out; 0 is any that is free. It goes on until interrupted, or until the claim ends.
A connection that fails is reported, and the others go on.

Everybody who can connect to --address gets into the workspace as you do: leave it at loopback on a machine that you share.`,
		`  prewarm port-forward prebuild-aebagbafaydqqcikbmga2 3000
  prewarm port-forward prebuild-aebagbafaydqqcikbmga2 8080:80 5432
  prewarm port-forward prebuild-aebagbafaydqqcikbmga2 0:3000 --address ::1`,
		a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			forwards, err := forwardsOf(args[1:])
			if err != nil {
				return err
			}
			return a.forward(ctx, c, args[0], address, forwards)
		}))
	cmd.PreRunE = a.unanswered("the lines are for people")
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.SuggestFor = []string{"forward", "port", "ports", "tunnel", "proxy"}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usageErrorf("WORKSPACE is missing")
		case 1:
			return usageErrorf("REMOTE is missing: write a port such as 3000, or 8080:80")
		}
		_, err := forwardsOf(args[1:])
		return err
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "address of this machine to listen on")
	return cmd
}

// portPair is one forward: from a port here to one in the workspace.
type portPair struct{ local, remote int }

func forwardsOf(args []string) ([]portPair, error) {
	var all []portPair
	for _, arg := range args {
		here, there, both := strings.Cut(arg, ":")
		if !both {
			there = here
		}
		local, err := strconv.ParseUint(here, 10, 16)
		remote, err2 := strconv.ParseUint(there, 10, 16)
		if err != nil || err2 != nil || remote == 0 {
			return nil, usageErrorf("%q is no port: write REMOTE or LOCAL:REMOTE, such as 3000 or 8080:80", arg)
		}
		all = append(all, portPair{int(local), int(remote)})
	}
	return all, nil
}

// forwarder is one run of port-forward.
type forwarder struct {
	*app
	client *sdk.Client
	name   string
	claim  *uuid.UUID
	end    context.CancelCauseFunc // where nothing can be forwarded any more

	mu sync.Mutex // of complaints
}

func (a *app) forward(ctx context.Context, client *sdk.Client, ref, address string, forwards []portPair) error {
	w, err := client.Workspace(ctx, ref)
	if err != nil {
		return err
	}
	if _, err := client.Ports(ctx, ref); err != nil { // refuses where nobody can get in
		return err
	}
	outer := ctx
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := &forwarder{app: a, client: client, name: w.Name, claim: w.ClaimID, end: end}
	var connections sync.WaitGroup
	for _, pair := range forwards {
		l, err := f.listen(ctx, address, pair)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { _ = l.Close() })()
		defer l.Close()
		connections.Go(func() { f.accept(ctx, &connections, l, pair.remote) })
	}
	a.clock.TickerFunc(ctx, claimCheck, func() error { f.check(ctx); return nil }, "port-forward")
	<-ctx.Done()
	connections.Wait()
	if outer.Err() != nil {
		return nil // an interrupt is how one stops it
	}
	return context.Cause(ctx)
}

func (f *forwarder) listen(ctx context.Context, address string, pair portPair) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(pair.local)))
	if err != nil { // in words of its own: the hint that others get is for servers
		return nil, xerrors.Errorf("%s (choose another port of this machine: LOCAL:%d)", err.Error(), pair.remote)
	}
	return l, f.write(fmt.Sprintf("Forwarding %s to %s port %d\n", l.Addr(), f.name, pair.remote))
}

func (f *forwarder) accept(ctx context.Context, connections *sync.WaitGroup, l net.Listener, remote int) {
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.end(xerrors.Errorf("accept connections: %w", err))
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			connections.Go(func() { f.carry(ctx, tcp, remote) })
		}
	}
}

// carry connects one connection. Where that ends early the program here sees that it was not the end.
func (f *forwarder) carry(ctx context.Context, conn *net.TCPConn, remote int) {
	defer func() { _ = conn.Close() }()
	cut := func() { _ = conn.SetLinger(0); _ = conn.Close() }
	stream, err := f.client.DialPort(ctx, f.name, remote)
	if err != nil {
		cut()
		f.failed(ctx, err)
		return
	}
	defer stream.Cut()
	defer context.AfterFunc(ctx, func() { stream.Cut(); cut() })()
	if err := sdk.Join(stream, conn); err != nil {
		cut()
		if closed := (&sdk.StreamError{}); errors.As(err, &closed) || errors.Is(err, sdk.ErrClaimEnded) {
			f.failed(ctx, err)
		} // otherwise it was the program here
	}
}

// failed reports that a connection failed. It ends everything where all that follow would fail too.
func (f *forwarder) failed(ctx context.Context, err error) {
	switch status := sdk.StatusOf(err); {
	case ctx.Err() != nil:
	case errors.Is(err, sdk.ErrClaimEnded), status == http.StatusNotFound, status == http.StatusConflict:
		f.end(f.over())
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.end(err)
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.complain(f.explain(err))
	}
}

// check ends a port-forward that is idle when its claim ends. What else goes wrong is for the next connection to find out.
func (f *forwarder) check(ctx context.Context) {
	w, err := f.client.Workspace(ctx, f.name)
	if sdk.StatusOf(err) == http.StatusNotFound || err == nil && (w.State != "claimed" || f.claim != nil && w.ClaimID != nil && *w.ClaimID != *f.claim) {
		f.end(f.over())
	}
}

func (f *forwarder) over() error {
	return xerrors.Errorf("the claim of workspace %s has ended, so nothing is forwarded any more", f.name)
}
