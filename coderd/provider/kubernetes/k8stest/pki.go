package k8stest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of one cluster. They last as long as a run of tests may.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir}
	a.cert = &x509.Certificate{
		Subject: pkix.Name{CommonName: "k8stest"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	var err error
	if a.key, err = a.issue("ca", a.cert); err != nil {
		return nil, err
	}
	// Of the key that signs tokens of service accounts, only the key is used.
	_, err = a.issue("accounts", &x509.Certificate{Subject: pkix.Name{CommonName: "accounts"}})
	return a, err
}

// client writes NAME.crt and NAME.key, for a user in groups; it serves as localhost too.
func (a *authority) client(name, user string, groups ...string) error {
	_, err := a.issue(name, &x509.Certificate{
		Subject:  pkix.Name{CommonName: user, Organization: groups},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes.default.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	return err
}

func (a *authority) issue(name string, cert *x509.Certificate) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	cert.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	signer := a.key
	if cert == a.cert {
		signer = key
	}
	signed, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	if cert == a.cert {
		if a.cert, err = x509.ParseCertificate(signed); err != nil {
			return nil, fmt.Errorf("issue certificate: %w", err)
		}
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: signed}, ".key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(a.dir, name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, fmt.Errorf("issue certificate: %w", err)
		}
	}
	return key, nil
}
