// Package runnertest has the kinds of runners that forges know, for tests that run a job by each of them at a provider. What came of
// it is the table of docs/forges.md.
package runnertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Kind is a way in which runners come to know a forge. Each is a forge of its own, with a private authority.
type Kind struct {
	Name string // in the table
	ID   string
	forgetest.Options

	Forge     *forgetest.Forge
	authority string
}

// Kinds are all that there are, none of which is connected.
func Kinds() []*Kind {
	return []*Kind{
		{Name: "GitHub, just-in-time configuration", ID: "jit"},
		{Name: "GitHub, registration token", ID: "token", Options: forgetest.Options{OldServer: true}},
		{Name: "Gitea, registration token", ID: "gitea", Options: forgetest.Options{Gitea: true}},
	}
}

// Scope is what runners are of, and a repository of it.
type Scope struct{ Scope, Path, Repository string }

// Scopes are all that there are.
var Scopes = []Scope{
	{"repository", "solo/shop", "solo/shop"}, {"organization", "acme", "acme/app"}, {"enterprise", "big", "big/app"},
}

// Place is a provider, or a way to use one: a column of the table.
type Place struct {
	Column
	Provider string // in the configuration; empty: it is there already
	Body     string // what its template says beside name and presets
	Slow     bool   // its workspaces take long to boot
	// Refused is how apply refuses a template of runners; empty: it takes them.
	Refused string
	// Lacks is why one kind is not to be had, as its first create says; nil: all are.
	Lacks func(k *Kind) string
}

// Cell is a kind and a scope at a place.
type Cell struct{ Column, Kind, Scope string }

// At is the cell of a kind and a scope.
func (p Place) At(k *Kind, s Scope) Cell { return Cell{p.ID, k.ID, s.Scope} }

// Connect starts the forge, and has the server know its entities: one for each scope.
func (k *Kind) Connect(t *testing.T, server *e2etest.Server, runnerPackage, address string) {
	t.Helper()
	ctx := t.Context()
	k.TLS, k.authority = PrivateTLS(t, address)
	k.Address, k.Token, k.Package = address+":0", "token-of-tests", runnerPackage
	var err error
	k.Forge, err = forgetest.Start(context.WithoutCancel(ctx), k.Options)
	require.NoError(t, err)
	t.Cleanup(k.Forge.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: jobs: %+v; runners: %v", k.Name, k.Forge.Records(), k.Forge.RunnerNames())
		}
	})
	kind := "github"
	if k.Gitea {
		kind = "gitea"
	}
	_, err = server.Client.PutForgeCredential(ctx, k.ID, sdk.PutForgeCredential{
		Kind: kind, URL: k.Forge.API, Token: k.Token, CABundle: &k.authority,
	})
	require.NoError(t, err)
	for _, s := range Scopes {
		put := sdk.PutForgeEntity{Scope: s.Scope, Path: s.Path, Credential: k.ID}
		if k.Gitea && s.Scope == "enterprise" {
			put.Path = "" // the whole instance
		}
		entity := k.ID + "-" + s.Scope
		saved, err := server.Client.PutForge(ctx, entity, put)
		require.NoError(t, err, entity)
		if s.Scope == "enterprise" && !k.Gitea {
			k.Forge.AddHook("enterprises/"+s.Path, server.URL+"/webhooks/"+entity, saved.WebhookSecret)
			continue
		}
		_, err = server.Client.InstallForgeHook(ctx, entity)
		require.NoError(t, err, entity)
	}
}

// Template is the template of all kinds' runners, as it stands in a file.
func (p Place) Template(kinds []*Kind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: on-%s\n    provider: %s\n    boot_timeout: 10m\n    %s\n    presets:\n", p.ID, p.ID, p.Body)
	for _, k := range kinds {
		for _, s := range Scopes {
			fmt.Fprintf(&b, "      - {name: %s, prebuilds: {instances: 0}, runner: {forge: %s, labels: [self-hosted, %s]}}\n",
				k.Preset(s), k.Preset(s), p.label(k, s))
		}
	}
	return b.String()
}

// Preset is the name of the preset and of its entity.
func (k *Kind) Preset(s Scope) string { return k.ID + "-" + s.Scope }

func (p Place) label(k *Kind, s Scope) string { return p.ID + "-" + k.Preset(s) }

// Run queues a job for one cell, and says what came of it.
func (k *Kind) Run(t *testing.T, server *e2etest.Server, p Place, s Scope) string {
	ctx, cell := t.Context(), fmt.Sprintf("%s of %s on %s", k.Name, s.Scope, p.Name)
	job := k.Forge.Queue(forgetest.Work{
		Repository: s.Repository, Labels: []string{"self-hosted", p.label(k, s)}, For: 100 * time.Millisecond,
	})[0]
	if p.Lacks != nil && p.Lacks(k) != "" {
		becomes(t, func() bool {
			preset, err := server.Client.Preset(ctx, "on-"+p.ID, k.Preset(s))
			return err == nil && strings.Contains(preset.Fault, p.Lacks(k))
		}, "%s is refused: %s", cell, p.Lacks(k))
		return "no"
	}
	becomes(t, func() bool {
		for _, r := range k.Forge.Records() {
			if r.ID == job {
				return r.State == forge.Completed && r.Conclusion == "success" && r.HandedOut == 1
			}
		}
		return false
	}, "%s: its job ends well", cell)
	var left []sdk.Workspace
	if !becomes(t, func() bool {
		list, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{Template: "on-" + p.ID, Preset: k.Preset(s)})
		left = list.Workspaces
		return err == nil && len(left) == 0
	}, "%s: its workspace is gone", cell) {
		for _, w := range left {
			is, err := server.Client.Workspace(ctx, w.Name)
			said, _ := json.Marshal(is)
			t.Logf("%s: %s (%v)", cell, said, err)
		}
	}
	return "yes"
}

// becomes waits until that is so, for as long as the tests of the package may take, less a minute to say what is missing: how long
// a cluster takes is not what is tested here.
func becomes(t *testing.T, so func() bool, what string, args ...any) bool {
	t.Helper()
	limit := time.Hour
	if deadline, is := t.Deadline(); is {
		limit = time.Until(deadline) - time.Minute
	}
	return assert.Eventually(t, so, limit, 100*time.Millisecond, append([]any{what}, args...)...)
}

// PrivateTLS is of a server at that address whose certificate is of an authority that nobody knows.
func PrivateTLS(t *testing.T, address string) (server *tls.Config, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.ParseIP(address)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &key.PublicKey, key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
