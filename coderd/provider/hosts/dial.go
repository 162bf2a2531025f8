package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// dial connects to a machine and logs in, within the connect time-out and ctx. The machine must show a pinned host key.
func (p *Provider) dial(ctx context.Context, m *Host) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.config.ConnectTimeout))
	defer cancel()
	auth, closeAuth, err := p.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	defer closeAuth()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", m.place())
	if err != nil {
		return nil, xerrors.Errorf("connect: %w", withCause(ctx, err))
	}
	var mismatch error
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, channels, requests, err := ssh.NewClientConn(raw, m.place(), &ssh.ClientConfig{
		User:              m.User,
		Auth:              []ssh.AuthMethod{auth},
		HostKeyAlgorithms: m.algorithms(),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			mismatch = m.verify(key)
			return mismatch
		},
		ClientVersion: "SSH-2.0-prewarm",
	})
	if !stop() && err == nil {
		_ = conn.Close()
		err = context.Cause(ctx)
	}
	if err == nil {
		return ssh.NewClient(conn, channels, requests), nil
	}
	_ = raw.Close()
	switch {
	case mismatch != nil:
		return nil, mismatch
	case ctx.Err() != nil:
		return nil, xerrors.Errorf("log in: it did not answer within %s: %w", time.Duration(p.config.ConnectTimeout),
			withCause(ctx, err))
	case strings.Contains(err.Error(), "no common algorithm for host key"):
		return nil, xerrors.Errorf("it has no host key of the pinned kinds (%s): its keys have changed, or another kind "+
			"must be pinned", strings.Join(m.fingerprints(), ", "))
	}
	return nil, xerrors.Errorf("log in as %s: %w", m.User, err)
}

// withCause puts the end of ctx before what it led to.
func withCause(ctx context.Context, err error) error {
	return cmp.Or(ctx.Err(), err)
}

// authenticate reads the key anew each time, so that it can be replaced while the server runs.
func (p *Provider) authenticate(ctx context.Context) (ssh.AuthMethod, func(), error) {
	if p.config.KeyFile != "" {
		signer, err := readKey(p.config.KeyFile)
		if err != nil {
			return nil, nil, err
		}
		return ssh.PublicKeys(signer), func() {}, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.config.AgentSocket)
	if err != nil {
		return nil, nil, xerrors.Errorf("reach the SSH agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return ssh.PublicKeysCallback(agent.NewClient(conn).Signers), func() { stop(); _ = conn.Close() }, nil
}

// errHostKey is a machine that is not the one that was pinned, or was installed anew.
var errHostKey = errors.New("the host key has changed")

func (m *Host) verify(key ssh.PublicKey) error {
	for _, pinned := range m.pinned {
		if pinned.Type() == key.Type() && string(pinned.Marshal()) == string(key.Marshal()) {
			return nil
		}
	}
	return xerrors.Errorf("it shows %s %s, pinned is %s; if it was installed again, pin the new key, else find out who "+
		"answers there: %w", key.Type(), ssh.FingerprintSHA256(key), strings.Join(m.fingerprints(), " or "), errHostKey)
}

func (m *Host) fingerprints() []string {
	return lists.Of(m.pinned, func(key ssh.PublicKey) string {
		return fmt.Sprintf("%s %s", key.Type(), ssh.FingerprintSHA256(key))
	})
}

// algorithms are those by which a pinned key can be shown: a machine with several is not to show one that is not pinned.
func (m *Host) algorithms() []string {
	var all []string
	for _, key := range m.pinned {
		kinds := []string{key.Type()}
		if key.Type() == ssh.KeyAlgoRSA {
			kinds = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, kind := range kinds {
			if !slices.Contains(all, kind) {
				all = append(all, kind)
			}
		}
	}
	return all
}
