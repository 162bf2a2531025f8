package tunnel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"time"

	"golang.org/x/xerrors"
)

var errStranger = errors.New("the other side has no key of this installation")

// prove makes a connection one that nobody else can read or write, with a peer that has a key of the database, which it
// returns. It ends with ctx, and closes conn where it fails.
//
// There is no authority, and no name: a certificate is only the form in which TLS wants a public key.
func (s *Service) prove(ctx context.Context, conn net.Conn, accept bool) (_ net.Conn, key string, err error) {
	secrets, err := s.Keys(ctx)
	if err == nil && len(secrets) == 0 {
		err = errors.New("there is no signing key")
	}
	if err != nil {
		return nil, "", xerrors.Errorf("read the keys of the relay: %w", err)
	}
	certificate, err := certify(ed25519.NewKeyFromSeed(secrets[0]))
	if err != nil {
		return nil, "", err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true,
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares keys, which is stricter
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 1 {
				public, _ := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
				if key = string(public); knows(secrets, key) {
					return nil
				}
			}
			return errStranger
		},
	}
	made := tls.Client(conn, config)
	if accept {
		made = tls.Server(conn, config)
	}
	if err := made.HandshakeContext(ctx); err != nil {
		return nil, "", xerrors.Errorf("prove to be a replica: %w", err)
	}
	return made, key, nil
}

// knows says whether a public key is that of one of the secrets.
func knows(secrets [][]byte, key string) bool {
	for _, secret := range secrets {
		public, _ := ed25519.NewKeyFromSeed(secret).Public().(ed25519.PublicKey)
		if key != "" && bytes.Equal(public, []byte(key)) {
			return true
		}
	}
	return false
}

func certify(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, xerrors.Errorf("make certificate of the relay: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// dropRelays ends those whose key was retired since.
func (s *Service) dropRelays(ctx context.Context) {
	s.relays.mu.Lock()
	var peers []*peer
	for p := range s.relays.from {
		peers = append(peers, p)
	}
	for _, w := range s.relays.to {
		select {
		case w.turn <- struct{}{}:
			if w.peer != nil && w.peer.session.IsClosed() {
				w.peer = nil
			}
			if w.peer != nil {
				peers = append(peers, w.peer)
			}
			<-w.turn
		default:
		}
	}
	s.relays.mu.Unlock()
	if len(peers) == 0 {
		return
	}
	secrets, err := s.Keys(ctx)
	if err != nil {
		return
	}
	for _, p := range peers {
		if !knows(secrets, p.key) {
			_ = p.session.Close()
		}
	}
}
