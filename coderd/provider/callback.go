package provider

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/xerrors"
)

// Server is the address of the server, as the agent needs it, with other in the place of its host: a host, or host:port;
// empty: as it is.
func (c Callback) Server(other string) (*url.URL, error) {
	base, _, _ := strings.Cut(c.CallbackURL, "/api/v1/")
	u, err := url.Parse(base)
	if err != nil {
		return nil, xerrors.Errorf("read callback URL: %w", err)
	}
	switch _, _, err := net.SplitHostPort(other); {
	case other == "":
	case err == nil:
		u.Host = other
	case u.Port() != "":
		u.Host = net.JoinHostPort(strings.Trim(other, "[]"), u.Port())
	default:
		u.Host = other
	}
	return u, nil
}

// Loopback says whether a host is the machine itself, whoever asks.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
