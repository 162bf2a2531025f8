package entities

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/auth"
)

const (
	gitHubURL = "https://api.github.com"
	minSecret = 16 // bytes of a webhook secret
)

var nameShape = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

// checkName also refuses what is a path of the API.
func checkName(name string) error {
	if !nameShape.MatchString(name) {
		return auth.Refuse(auth.ErrInvalid, "name %q: lower-case letters, digits and dashes, at most 64", name)
	}
	if slices.Contains([]string{"credentials", "reseal"}, name) {
		return auth.Refuse(auth.ErrInvalid, "name %q means something else: choose another", name)
	}
	return nil
}

// checkURL returns the address of an API as it is stored. Secrets go over it, so it is encrypted, unless it ends on this
// machine.
func checkURL(kind, raw string) (string, error) {
	if raw == "" && kind == "github" {
		return gitHubURL, nil
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return "", auth.Refuse(auth.ErrInvalid, "url is missing: the forge's address, such as https://gitea.example.com")
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", auth.Refuse(auth.ErrInvalid, "url: it must look like https://github.example.com/api/v3, without a password")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return "", auth.Refuse(auth.ErrInvalid, "url %s: it must begin with https://, since the credential is sent there", raw)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkBundle wants each block of a bundle to be an authority that can be parsed.
func checkBundle(bundle string) error {
	n := 0
	for rest := []byte(strings.TrimSpace(bundle)); len(rest) > 0; {
		block, after := pem.Decode(rest)
		if block == nil {
			return auth.Refuse(auth.ErrInvalid, "ca_bundle: after certificate %d there is something that is not PEM", n)
		}
		n++
		if block.Type != "CERTIFICATE" {
			return auth.Refuse(auth.ErrInvalid, "ca_bundle: block %d is a %s, not a CERTIFICATE", n, block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return auth.Refuse(auth.ErrInvalid, "ca_bundle: certificate %d cannot be read: %v", n, err)
		}
		rest = []byte(strings.TrimSpace(string(after)))
	}
	return nil
}

// checkPrivateKey says nothing of what is in the key.
func checkPrivateKey(key string) error {
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return auth.Refuse(auth.ErrInvalid, "private_key: not PEM; give the file that the forge offered for download")
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return nil
	}
	if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return nil
	}
	return auth.Refuse(auth.ErrInvalid, "private_key: the PEM block %s holds no RSA private key that can be read", block.Type)
}

// instance is what the path of a whole Gitea is called where nobody has named it. Nothing is looked up by it.
const instance = "instance"

// checkPath fits what an entity is.
func checkPath(kind, scope, path string) error {
	parts := strings.Split(path, "/")
	wanted, example := 1, "acme"
	switch scope {
	case "repository":
		wanted, example = 2, "acme/shop"
	case "organization":
	case "enterprise": // of Gitea the whole instance
		if kind == "gitea" {
			example = instance + ", or left out"
		}
	default:
		return auth.Refuse(auth.ErrInvalid, "scope is missing: repository, organization or enterprise")
	}
	if len(parts) != wanted || slices.Contains(parts, "") || strings.ContainsAny(path, " ?#%\\") ||
		slices.Contains(parts, ".") || slices.Contains(parts, "..") {
		return auth.Refuse(auth.ErrInvalid, "path %q: with the scope %s it is like %s", path, scope, example)
	}
	return nil
}

func checkSecret(secret string) error {
	if len(secret) < minSecret {
		return auth.Refuse(auth.ErrInvalid, "webhook_secret: at least %d bytes", minSecret)
	}
	return nil
}
