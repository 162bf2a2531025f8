package instance

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
)

// site is a server whose certificate is of an authority of its own, and that authority in PEM.
func site(t *testing.T, name string) (url, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signed := func(c, parent *x509.Certificate, public *ecdsa.PublicKey) []byte {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, parent, public, key)
		require.NoError(t, err)
		return der
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der := signed(ca, ca, &key.PublicKey)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := signed(&x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &own.PublicKey)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(name + "\n")) }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: own}}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// install runs the script as an instance does, in a file system of its own as far as it writes there: prepare makes that, and
// the program that it takes for the agent is agent.
func install(t *testing.T, bundle, prepare, agent string) (home string) {
	t.Helper()
	dir := t.TempDir()
	home = filepath.Join(dir, "home")
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{home, bin, filepath.Join(dir, "etc"), filepath.Join(dir, "anchors"), filepath.Join(dir, "certs")} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	var script bytes.Buffer
	require.NoError(t, template.Must(template.New("").Parse(string(installScript))).Execute(&script, map[string]string{
		"CallbackURL": "https://prewarm.invalid/api/v1/instance/status", "CallbackToken": "a token", "CABundle": bundle,
	}))
	programtest.Write(t, filepath.Join(dir, "install.sh"), script.Bytes(), 0o700)
	programtest.Write(t, filepath.Join(bin, "prewarm"), []byte("#!/bin/sh\n"+agent), 0o700)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prepare"), []byte("set -e\ncd "+dir+"\n"+prepare+"\nexec ./install.sh\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "sh", filepath.Join(dir, "prepare"))
	cmd.Env = []string{"HOME=" + home, "PATH=" + bin + ":/usr/bin:/bin", "PREWARM_AGENT_SERVICE=no"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Log(string(out))
	return home
}

// G2: what an instance's system trusts when its agent starts are all authorities of the bundle: here that of the server and
// two of a forge, with the tools of Debian.
func TestInstall_trust(t *testing.T) {
	t.Parallel()
	one, first := site(t, "one")
	two, second := site(t, "two")
	three, third := site(t, "three")
	home := install(t, first+second+"\n"+third,
		"cp -a /etc/ssl/certs/. certs; mount --bind certs /etc/ssl/certs; mount --bind anchors /usr/local/share/ca-certificates",
		"for url in "+one+" "+two+" "+three+"; do curl --silent --show-error $url; done > got.new 2>&1; mv got.new got")
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(home, "got"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	got, err := os.ReadFile(filepath.Join(home, "got"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\n", string(got))
}

// The tools of RHEL read another directory, one certificate of each file.
func TestInstall_trustOfRHEL(t *testing.T) {
	t.Parallel()
	_, first := site(t, "one")
	_, second := site(t, "two")
	home := install(t, first+second, `
		cp /etc/passwd /etc/ld.so.cache etc
		mount --bind etc /etc
		mount --bind /dev/null /usr/sbin/update-ca-certificates
		printf '#!/bin/sh\nmkdir "$HOME/trusted"; cp /etc/pki/ca-trust/source/anchors/* "$HOME/trusted"\n' > bin/update-ca-trust
		chmod 0700 bin/update-ca-trust`, "exit 0")
	for name, want := range map[string]string{"prewarm-1.crt": first, "prewarm-2.crt": second} {
		got, err := os.ReadFile(filepath.Join(home, "trusted", name))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

// An image without a trust store gets its agent all the same.
func TestInstall_noTrustStore(t *testing.T) {
	t.Parallel()
	_, authority := site(t, "one")
	home := install(t, authority, "mount --bind /dev/null /usr/sbin/update-ca-certificates", "cat $PREWARM_AGENT_CA_FILE > got.new; mv got.new got")
	require.Eventually(t, func() bool {
		got, err := os.ReadFile(filepath.Join(home, "got"))
		return err == nil && strings.TrimSpace(string(got)) == strings.TrimSpace(authority)
	}, time.Minute, 10*time.Millisecond)
}
