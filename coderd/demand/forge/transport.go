package forge

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"

	"golang.org/x/xerrors"
)

// Transport is how clients connect: the authorities of the bundle (PEM) are trusted beside the usual ones. Requests go through
// the proxy of the environment.
func Transport(bundle []byte) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	if len(bundle) == 0 {
		return transport, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, xerrors.Errorf("read authorities of the system: %w", err)
	}
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, xerrors.New("the CA bundle has no certificate in PEM")
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}
