package entities_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// kind notes what is connected to. Other calls panic.
type kind struct {
	forge.Kind
	mu          sync.Mutex
	connections []forge.Connection
}

// client is of one connection; it asks nobody anything.
type client struct {
	forge.Forge
	forge.Connection
}

func (k *kind) Connect(c forge.Connection) (forge.Forge, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.connections = append(k.connections, c)
	return &client{Connection: c}, nil
}

// world is a database with the default organization, and one replica.
type world struct {
	t       *testing.T
	store   *database.Store
	clock   *quartz.Mock // of replicas; the database's is apart
	kind    *kind
	keys    string // the file's path
	who     auth.Identity
	service *entities.Service
}

const token = "the-token-of-the-forge"

// newWorld has a credential acme, and an entity shop whose webhook secret is first.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: dbtest.Open(t), clock: quartz.NewMock(t), kind: &kind{}, keys: filepath.Join(t.TempDir(), "keys")}
	w.who.OrganizationID = auth.DefaultOrganizationID
	require.NoError(t, w.store.Pool.QueryRow(context.Background(), "SELECT id FROM users LIMIT 1").Scan(&w.who.UserID))
	w.service = w.replica(w.keys)
	w.put("acme", entities.Credential{Kind: "github", Token: token})
	_, err := w.service.Put(context.Background(), w.who, "shop", entities.Change{
		Scope: "repository", Path: "acme/shop", Credential: "acme", WebhookSecret: first,
	})
	require.NoError(t, err)
	return w
}

const first, second, third = "the-first-secret", "the-second-secret", "the-third-secret"

// replica is another one, with the keys of that file.
func (w *world) replica(keys string) *entities.Service {
	ring := seal.Open(keys, true, w.clock)
	return &entities.Service{Store: w.store, Keys: ring, Directory: entities.NewDirectory(w.store, ring,
		map[string]forge.Kind{"github": w.kind, "gitea": w.kind}, w.clock)}
}

func (w *world) put(name string, c entities.Credential) {
	w.t.Helper()
	require.NoError(w.t, w.service.PutCredential(context.Background(), w.who, name, c))
}

// entity is one as that replica knows it.
func (w *world) entity(s *entities.Service, name string) entities.Entity {
	w.t.Helper()
	e, err := s.Directory.ByName(context.Background(), name)
	require.NoError(w.t, err)
	return e
}

func (w *world) client(s *entities.Service, name string) forge.Forge {
	w.t.Helper()
	c, err := s.Directory.Forge(context.Background(), w.entity(s, name).ID)
	require.NoError(w.t, err)
	return c
}

// rotate gives shop another secret.
func (w *world) rotate(secret string, overlap time.Duration) {
	w.t.Helper()
	_, err := w.service.Rotate(context.Background(), w.who, "shop", entities.Change{WebhookSecret: secret, Overlap: overlap})
	require.NoError(w.t, err)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

// keyFile is a file of keys, by their names, the first of which seals.
func keyFile(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	writeKeys(t, path, names...)
	return path
}

func writeKeys(t *testing.T, path string, names ...string) {
	t.Helper()
	var content string
	for _, name := range names {
		content += name + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name[:1], 32))) + "\n"
	}
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// authority is a certificate, as PEM.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
